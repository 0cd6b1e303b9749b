package lostack;

import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.zip.CRC32;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.kafka.spout.FirstPollOffsetStrategy;
import org.apache.storm.kafka.spout.trident.KafkaTridentSpoutConfig;
import org.apache.storm.kafka.spout.trident.KafkaTridentSpoutOpaque;
import org.apache.storm.kafka.spout.trident.KafkaTridentSpoutTransactional;
import org.apache.storm.task.IMetricsContext;
import org.apache.storm.topology.FailedException;
import org.apache.storm.trident.Stream;
import org.apache.storm.trident.TridentTopology;
import org.apache.storm.trident.operation.BaseFunction;
import org.apache.storm.trident.operation.CombinerAggregator;
import org.apache.storm.trident.operation.TridentCollector;
import org.apache.storm.trident.operation.TridentOperationContext;
import org.apache.storm.trident.state.OpaqueValue;
import org.apache.storm.trident.state.State;
import org.apache.storm.trident.state.StateFactory;
import org.apache.storm.trident.state.TransactionalValue;
import org.apache.storm.trident.state.map.IBackingMap;
import org.apache.storm.trident.state.map.NonTransactionalMap;
import org.apache.storm.trident.state.map.OpaqueMap;
import org.apache.storm.trident.state.map.TransactionalMap;
import org.apache.storm.trident.tuple.TridentTuple;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Values;

/**
 * The topology of a cell of Trident: Kafka's spout, a function that works, and a state by key in a topic.
 *
 * A value of the state carries the ids of the records that were folded into it; the last version of a key is its value. The id of
 * the transaction and, of an opaque state, the value before stand in headers of each version.
 */
final class Trident {
    private static final String STREAM = "in";

    private Trident() {
    }

    static StormTopology of(Map<String, String> told) {
        KafkaTridentSpoutConfig<byte[], byte[]> config =
            new KafkaTridentSpoutConfig.Builder<byte[], byte[]>(told.get("bootstrap"), told.get("in"))
                .setProp(Topology.below(told, "spout."))
                .setProp("key.deserializer", ByteArrayDeserializer.class.getName())
                .setProp("value.deserializer", ByteArrayDeserializer.class.getName())
                .setProp("group.id", told.get("group"))
                .setRecordTranslator(new Topology.Reading())
                .setFirstPollOffsetStrategy(FirstPollOffsetStrategy.UNCOMMITTED_EARLIEST)
                .setPollTimeoutMs(Long.parseLong(told.get("poll")))
                .build();
        TridentTopology topology = new TridentTopology();
        Stream read = told.get("spout").equals("opaque")
            ? topology.newStream(STREAM, new KafkaTridentSpoutOpaque<>(config))
            : topology.newStream(STREAM, new KafkaTridentSpoutTransactional<>(config));
        read.each(new Fields("key", "value", "partition", "epoch", "offset"), new Work(), new Fields("name", "entry"))
            .groupBy(new Fields("name"))
            .persistentAggregate(new InTopic(told), new Fields("entry"), new Folding(), new Fields("folded"));
        return topology.build();
    }

    /** What was folded: how often each record, and what the last one says of itself. */
    static final class Folded implements Serializable {
        private static final long serialVersionUID = 1L;
        final TreeMap<String, Integer> times = new TreeMap<>();
        String head = "";
        String attempt = "";
        String origin = "";

        /** The payload of harness.model.record that tells it. */
        byte[] value() {
            StringBuilder body = new StringBuilder();
            times.forEach((record, count) -> body.append(record).append('=').append(count).append(' '));
            CRC32 sum = new CRC32();
            sum.update((head + "\n" + body).getBytes(StandardCharsets.US_ASCII));
            return ("lostack " + head + " " + String.format("%08x", sum.getValue()) + "\n" + body)
                .getBytes(StandardCharsets.US_ASCII);
        }

        static Folded of(byte[] value) {
            String[] halves = new String(value, StandardCharsets.US_ASCII).split("\n", 2);
            String[] words = halves[0].split(" ");
            Folded found = new Folded();
            found.head = words[1] + " " + words[2] + " " + words[3];
            for (String word : halves[1].trim().split(" ")) {
                int at = word.lastIndexOf('=');
                found.times.put(word.substring(0, at), Integer.valueOf(word.substring(at + 1)));
            }
            return found;
        }
    }

    /** Puts entries together. */
    static final class Folding implements CombinerAggregator<Folded> {
        private static final long serialVersionUID = 1L;

        @Override
        public Folded init(TridentTuple tuple) {
            return (Folded) tuple.getValue(0);
        }

        @Override
        public Folded combine(Folded first, Folded second) {
            Folded both = new Folded();
            Folded last = second.head.isEmpty() ? first : second;
            both.head = last.head;
            both.attempt = last.attempt;
            both.origin = last.origin;
            both.times.putAll(first.times);
            second.times.forEach((record, count) -> both.times.merge(record, count, Integer::sum));
            return both;
        }

        @Override
        public Folded zero() {
            return new Folded();
        }
    }

    /** Says what it was given, and makes an entry of it. */
    static final class Work extends BaseFunction {
        private static final long serialVersionUID = 1L;
        private transient Map<String, Object> conf;
        private transient Ledger ledger;
        private transient Set<Integer> resumed;
        private transient long number;

        @Override
        public void prepare(Map<String, Object> told, TridentOperationContext context) {
            conf = told;
            resumed = new HashSet<>();
            ledger = Ledger.of(told, "worker");
            ledger.ready();
        }

        @Override
        public void execute(TridentTuple tuple, TridentCollector collector) {
            byte[] value = tuple.getBinaryByField("value");
            int partition = tuple.getIntegerByField("partition");
            int epoch = tuple.getIntegerByField("epoch");
            long offset = tuple.getLongByField("offset");
            String[] words = new String(value, StandardCharsets.ISO_8859_1).split("\n", 2)[0].split(" ");
            if (resumed.add(partition)) {
                ledger.resumed((String) conf.get(Ledger.TOLD + "group"), partition, offset);
            }
            ledger.delivered(words[2], partition, epoch, offset);
            Folded entry = new Folded();
            entry.head = words[1] + " " + words[2] + " " + words[3];
            entry.attempt = ledger.writer + ".0." + ++number;
            entry.origin = partition + "." + epoch + "." + offset;
            entry.times.put(words[2], 1);
            collector.emit(new Values(new String(tuple.getBinaryByField("key"), StandardCharsets.US_ASCII), entry));
            Failpoint.hit(conf, "processed", words[2]);
        }
    }

    /** Makes the state: transactional, opaque, or one that asks for no transaction. */
    static final class InTopic implements StateFactory {
        private static final long serialVersionUID = 1L;
        private final Map<String, String> told;

        InTopic(Map<String, String> told) {
            this.told = new HashMap<>(told);
        }

        @Override
        public State makeState(Map<String, Object> conf, IMetricsContext metrics, int index, int count) {
            return switch (told.get("state")) {
                case "transactional" -> TransactionalMap.build(new Versions<TransactionalValue>(told) {
                    @Override
                    TransactionalValue of(Version version) {
                        return new TransactionalValue<>(version.transaction, version.value);
                    }

                    @Override
                    Version version(TransactionalValue value) {
                        return new Version(value.getTxid(), (Folded) value.getVal(), null);
                    }
                });
                case "opaque" -> OpaqueMap.build(new Versions<OpaqueValue>(told) {
                    @Override
                    OpaqueValue of(Version version) {
                        return new OpaqueValue<>(version.transaction, version.value, version.before);
                    }

                    @Override
                    Version version(OpaqueValue value) {
                        return new Version(value.getCurrTxid(), (Folded) value.getCurr(), (Folded) value.getPrev());
                    }
                });
                default -> NonTransactionalMap.build(new Versions<Folded>(told) {
                    @Override
                    Folded of(Version version) {
                        return version.value;
                    }

                    @Override
                    Version version(Folded value) {
                        return new Version(0L, value, null);
                    }
                });
            };
        }
    }

    /** One version of a key's value. */
    record Version(Long transaction, Folded value, Folded before) {
    }

    /** The values by key in a topic, which is read when a worker starts: past the wire, for it is no record's way. */
    abstract static class Versions<T> implements IBackingMap<T> {
        private static final String TRANSACTION = "trident-transaction";
        private static final String BEFORE = "trident-before";
        private final Map<String, Version> known = new HashMap<>();
        private final KafkaProducer<byte[], byte[]> producer;
        private final String topic;

        Versions(Map<String, String> told) {
            topic = told.get("out");
            read(told.get("direct"));
            Properties writing = new Properties();
            writing.putAll(Topology.below(told, "bolt."));
            writing.put("bootstrap.servers", told.get("bootstrap"));
            writing.put("key.serializer", ByteArraySerializer.class.getName());
            writing.put("value.serializer", ByteArraySerializer.class.getName());
            producer = new KafkaProducer<>(writing);
        }

        abstract T of(Version version);

        abstract Version version(T value);

        @Override
        public List<T> multiGet(List<List<Object>> keys) {
            List<T> found = new ArrayList<>();
            for (List<Object> key : keys) {
                Version version = known.get((String) key.get(0));
                found.add(version == null ? null : of(version));
            }
            return found;
        }

        @Override
        public void multiPut(List<List<Object>> keys, List<T> values) {
            for (int i = 0; i < keys.size(); i++) {
                String key = (String) keys.get(i).get(0);
                Version version = version(values.get(i));
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
                        known.put(new String(record.key(), StandardCharsets.US_ASCII), new Version(
                            Long.valueOf(new String(transaction.value(), StandardCharsets.US_ASCII)), Folded.of(record.value()),
                            before == null ? null : Folded.of(before.value())));
                    }
                }
            }
        }
    }
}
