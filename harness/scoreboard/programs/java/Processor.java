import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Copies every record to another topic, in one transaction with its position. */
public final class Processor {
    public static void main(String[] arguments) {
        String servers = System.getenv("BOOTSTRAP_SERVERS");
        Map<String, Object> reading = new HashMap<>(Map.of(
                "bootstrap.servers", servers, "group.id", "pricing", "auto.offset.reset", "earliest",
                "enable.auto.commit", false, "isolation.level", "read_committed"));
        if (arguments.length > 1) {
            reading.put("group.protocol", arguments[1]);
        }
        Map<String, Object> writing = Map.of("bootstrap.servers", servers, "transactional.id", "pricing");
        var into = new StringSerializer();
        var from = new StringDeserializer();
        try (var producer = new KafkaProducer<>(writing, into, into);
                var consumer = new KafkaConsumer<>(reading, from, from)) {
            producer.initTransactions();
            consumer.subscribe(List.of("orders"));
            while (true) {
                var records = consumer.poll(Duration.ofSeconds(1));
                var group = consumer.groupMetadata();
                if (records.isEmpty()) {
                    continue;
                }
                producer.beginTransaction();
                var positions = new HashMap<TopicPartition, OffsetAndMetadata>();
                for (var record : records) {
                    producer.send(new ProducerRecord<>("priced", record.value()));
                    positions.put(new TopicPartition(record.topic(), record.partition()),
                            new OffsetAndMetadata(record.offset() + 1));
                }
                producer.sendOffsetsToTransaction(positions, group);
                producer.commitTransaction();
            }
        }
    }
}
