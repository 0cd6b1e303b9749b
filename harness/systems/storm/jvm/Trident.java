package lostack;

import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.zip.CRC32;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.kafka.spout.FirstPollOffsetStrategy;
import org.apache.storm.kafka.spout.trident.KafkaTridentSpoutConfig;
import org.apache.storm.kafka.spout.trident.KafkaTridentSpoutOpaque;
import org.apache.storm.kafka.spout.trident.KafkaTridentSpoutTransactional;
import org.apache.storm.task.IMetricsContext;
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
 * The topology of a cell of Trident: Kafka's spout, a function that works, and a state by key, in a topic or in a database.
 *
 * A value of the state carries the ids of the records that were folded into it. The id of the transaction and, of an opaque state,
 * the value before stand beside it.
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
            .persistentAggregate(new InStore(told), new Fields("entry"), new Folding(), new Fields("folded"));
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
    static final class InStore implements StateFactory {
        private static final long serialVersionUID = 1L;
        private final Map<String, String> told;

        InStore(Map<String, String> told) {
            this.told = new HashMap<>(told);
        }

        @Override
        public State makeState(Map<String, Object> conf, IMetricsContext metrics, int index, int count) {
            Store store = told.containsKey("database") ? new DatabaseStore(told) : new TopicStore(told);
            return switch (told.get("state")) {
                case "transactional" -> TransactionalMap.build(new Versions<TransactionalValue>(store) {
                    @Override
                    TransactionalValue of(Version version) {
                        return new TransactionalValue<>(version.transaction, version.value);
                    }

                    @Override
                    Version version(TransactionalValue value) {
                        return new Version(value.getTxid(), (Folded) value.getVal(), null);
                    }
                });
                case "opaque" -> OpaqueMap.build(new Versions<OpaqueValue>(store) {
                    @Override
                    OpaqueValue of(Version version) {
                        return new OpaqueValue<>(version.transaction, version.value, version.before);
                    }

                    @Override
                    Version version(OpaqueValue value) {
                        return new Version(value.getCurrTxid(), (Folded) value.getCurr(), (Folded) value.getPrev());
                    }
                });
                default -> NonTransactionalMap.build(new Versions<Folded>(store) {
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

    /** Where versions are kept: the last one of each key counts. */
    interface Store {
        /** The last version of a key, or null. */
        Version get(String key);

        /** Keep new ones, by their keys. */
        void put(Map<String, Version> versions);
    }

    /** Versions as a kind of state wants them. */
    abstract static class Versions<T> implements IBackingMap<T> {
        private final Store store;

        Versions(Store store) {
            this.store = store;
        }

        abstract T of(Version version);

        abstract Version version(T value);

        @Override
        public List<T> multiGet(List<List<Object>> keys) {
            List<T> found = new ArrayList<>();
            for (List<Object> key : keys) {
                Version version = store.get((String) key.get(0));
                found.add(version == null ? null : of(version));
            }
            return found;
        }

        @Override
        public void multiPut(List<List<Object>> keys, List<T> values) {
            Map<String, Version> versions = new LinkedHashMap<>();
            for (int i = 0; i < keys.size(); i++) {
                versions.put((String) keys.get(i).get(0), version(values.get(i)));
            }
            store.put(versions);
        }
    }
}
