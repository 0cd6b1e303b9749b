package lostack;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.storm.topology.FailedException;

/**
 * Versions in a topic, which is read when a worker starts: past the wire, for it is no record's way.
 *
 * The id of the transaction and the value before stand in headers of each version.
 */
final class TopicStore implements Trident.Store {
    private static final String TRANSACTION = "trident-transaction";
    private static final String BEFORE = "trident-before";
    private final Map<String, Trident.Version> known = new HashMap<>();
    private final KafkaProducer<byte[], byte[]> producer;
    private final String topic;

    TopicStore(Map<String, String> told) {
        topic = told.get("out");
        read(told.get("direct"));
        Properties writing = new Properties();
        writing.putAll(Topology.below(told, "bolt."));
        writing.put("bootstrap.servers", told.get("bootstrap"));
        writing.put("key.serializer", ByteArraySerializer.class.getName());
        writing.put("value.serializer", ByteArraySerializer.class.getName());
        producer = new KafkaProducer<>(writing);
    }

    @Override
    public Trident.Version get(String key) {
        return known.get(key);
    }

    @Override
    public void put(Map<String, Trident.Version> versions) {
        versions.forEach(this::put);
    }

    private void put(String key, Trident.Version version) {
        ProducerRecord<byte[], byte[]> record =
            new ProducerRecord<>(topic, key.getBytes(StandardCharsets.US_ASCII), version.value().value());
        record.headers().add("lostack-attempt", version.value().attempt.getBytes(StandardCharsets.US_ASCII))
            .add("lostack-origin", version.value().origin.getBytes(StandardCharsets.US_ASCII))
            .add(TRANSACTION, version.transaction().toString().getBytes(StandardCharsets.US_ASCII));
        if (version.before() != null) {
            record.headers().add(BEFORE, version.before().value());
        }
        try {
            producer.send(record).get();
        } catch (ExecutionException error) {
            throw new FailedException("the state of " + key + " is not written", error);
        } catch (InterruptedException ended) {
            Thread.currentThread().interrupt();
            throw new FailedException(ended);
        }
        known.put(key, version);
    }

    private void read(String bootstrap) {
        Properties reading = new Properties();
        reading.put("bootstrap.servers", bootstrap);
        reading.put("enable.metrics.push", "false");
        reading.put("key.deserializer", ByteArrayDeserializer.class.getName());
        reading.put("value.deserializer", ByteArrayDeserializer.class.getName());
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(reading)) {
            List<TopicPartition> all = new ArrayList<>();
            consumer.partitionsFor(topic).forEach(each -> all.add(new TopicPartition(topic, each.partition())));
            consumer.assign(all);
            consumer.seekToBeginning(all);
            Map<TopicPartition, Long> ends = consumer.endOffsets(all);
            while (all.stream().anyMatch(each -> consumer.position(each) < ends.get(each))) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    Header transaction = record.headers().lastHeader(TRANSACTION);
                    Header before = record.headers().lastHeader(BEFORE);
                    known.put(new String(record.key(), StandardCharsets.US_ASCII), new Trident.Version(
                        Long.valueOf(new String(transaction.value(), StandardCharsets.US_ASCII)),
                        Trident.Folded.of(record.value()), before == null ? null : Trident.Folded.of(before.value())));
                }
            }
        }
    }
}
