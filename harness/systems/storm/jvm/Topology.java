package lostack;

import java.io.IOException;
import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.storm.kafka.bolt.KafkaBolt;
import org.apache.storm.kafka.bolt.mapper.FieldNameBasedTupleToKafkaMapper;
import org.apache.storm.kafka.spout.FirstPollOffsetStrategy;
import org.apache.storm.kafka.spout.KafkaSpout;
import org.apache.storm.kafka.spout.KafkaSpoutConfig;
import org.apache.storm.kafka.spout.RecordTranslator;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.topology.base.BaseRichBolt;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;

/**
 * The topology of a cell: KafkaSpout, a bolt that works, KafkaBolt; each one executor, in one worker.
 *
 * What its workers do they write down in the history of the cell, each in a file of its own. Settings come as words
 * {@code name=value}: those that begin with {@code spout.} and {@code bolt.} go on to the clients of Kafka.
 */
final class Topology {
    static final String TOLD = "lostack.";

    private Topology() {
    }

    static org.apache.storm.generated.StormTopology of(Map<String, String> told) {
        KafkaSpoutConfig.Builder<byte[], byte[]> spout =
            new KafkaSpoutConfig.Builder<>(told.get("bootstrap"), new String[] {told.get("in")});
        spout.setProp(below(told, "spout."))
            .setProp("key.deserializer", ByteArrayDeserializer.class.getName())
            .setProp("value.deserializer", ByteArrayDeserializer.class.getName())
            .setRecordTranslator(new Reading())
            .setFirstPollOffsetStrategy(FirstPollOffsetStrategy.UNCOMMITTED_EARLIEST)
            .setPollTimeoutMs(50)
            .setProcessingGuarantee(KafkaSpoutConfig.ProcessingGuarantee.valueOf(told.get("guarantee")))
            .setOffsetCommitPeriodMs(Long.parseLong(told.get("commit")))
            .setGroupId(told.get("group"));
        Properties writing = new Properties();
        writing.putAll(below(told, "bolt."));
        writing.put("bootstrap.servers", told.get("bootstrap"));
        writing.put("key.serializer", ByteArraySerializer.class.getName());
        writing.put("value.serializer", Writing.class.getName());
        KafkaBolt<byte[], Copy> bolt = new KafkaBolt<byte[], Copy>()
            .withProducerProperties(writing)
            .withTopicSelector(told.get("out"))
            .withTupleToKafkaMapper(new FieldNameBasedTupleToKafkaMapper<>("key", "copy"));
        bolt.setFireAndForget(told.get("forget").equals("true"));

        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout("spout", new KafkaSpout<>(spout.build()), 1);
        builder.setBolt("work", new Work(), 1).shuffleGrouping("spout");
        builder.setBolt("sink", bolt, 1).shuffleGrouping("work");
        return builder.createTopology();
    }

    static Map<String, Object> below(Map<String, String> told, String prefix) {
        Map<String, Object> found = new HashMap<>();
        told.forEach((name, value) -> {
            if (name.startsWith(prefix)) {
                found.put(name.substring(prefix.length()), value);
            }
        });
        return found;
    }

    private static String idOf(byte[] value) {
        String[] words = new String(value, StandardCharsets.ISO_8859_1).split("\n", 2)[0].split(" ");
        return words.length > 2 ? words[2] : "";
    }

    /** One copy in the source's log, on its way to the sink, with the name of the attempt. */
    static final class Copy implements Serializable {
        private static final long serialVersionUID = 1L;
        byte[] value;
        String origin;
        String attempt;
    }

    /** What a tuple of the spout has. */
    static final class Reading implements RecordTranslator<byte[], byte[]> {
        private static final long serialVersionUID = 1L;

        @Override
        public List<Object> apply(ConsumerRecord<byte[], byte[]> record) {
            return new Values(record.key(), record.value(), record.partition(), record.leaderEpoch().orElse(-1), record.offset());
        }

        @Override
        public Fields getFieldsFor(String stream) {
            return new Fields("key", "value", "partition", "epoch", "offset");
        }

        @Override
        public List<String> streams() {
            return List.of("default");
        }
    }

    /** Writes copies, with headers that name the attempt and the copy that each was made of. */
    public static final class Writing implements Serializer<Copy> {
        @Override
        public byte[] serialize(String topic, Copy copy) {
            return copy.value;
        }

        @Override
        public byte[] serialize(String topic, Headers headers, Copy copy) {
            headers.add("lostack-attempt", copy.attempt.getBytes(StandardCharsets.US_ASCII));
            headers.add("lostack-origin", copy.origin.getBytes(StandardCharsets.US_ASCII));
            return copy.value;
        }
    }

    /** Says what it was given, and passes it on: anchored to what it was made of, or not. */
    static final class Work extends BaseRichBolt {
        private static final long serialVersionUID = 1L;
        private transient OutputCollector collector;
        private transient Ledger ledger;
        private transient Set<Integer> resumed;
        private transient boolean anchored;
        private transient String group;
        private transient long number;

        @Override
        public void prepare(Map<String, Object> conf, TopologyContext context, OutputCollector given) {
            collector = given;
            resumed = new HashSet<>();
            anchored = (Boolean) conf.get(TOLD + "anchored");
            group = (String) conf.get(TOLD + "group");
            ledger = Ledger.of((String) conf.get(TOLD + "history"), (String) conf.get(TOLD + "cell"));
            ledger.tell("\"event\":\"ready\",\"role\":\"processor\",\"pid\":" + ProcessHandle.current().pid() + ",\"worker\":\""
                + System.getProperty("worker.id") + "\"");
        }

        @Override
        public void execute(Tuple tuple) {
            Copy copy = new Copy();
            copy.value = tuple.getBinaryByField("value");
            int partition = tuple.getIntegerByField("partition");
            long offset = tuple.getLongByField("offset");
            int epoch = tuple.getIntegerByField("epoch");
            copy.origin = partition + "." + epoch + "." + offset;
            copy.attempt = ledger.writer + ".0." + ++number;
            if (resumed.add(partition)) {
                ledger.tell("\"event\":\"resumed\",\"where\":\"" + group + "\",\"partition\":" + partition + ",\"position\":" + offset);
            }
            ledger.tell("\"event\":\"delivered\",\"record\":\"" + idOf(copy.value) + "\",\"partition\":" + partition + ",\"epoch\":"
                + epoch + ",\"offset\":" + offset);
            Values out = new Values(tuple.getBinaryByField("key"), copy);
            if (anchored) {
                collector.emit(tuple, out);
            } else {
                collector.emit(out);
            }
            collector.ack(tuple);
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(new Fields("key", "copy"));
        }
    }

    /** Appends lines to the history, each whole or not at all, as harness.model.history does: one file for each worker. */
    static final class Ledger {
        private static Ledger mine;
        final String writer;
        private final Path file;
        private final String cell;

        private Ledger(Path file, String writer, String cell) {
            this.file = file;
            this.writer = writer;
            this.cell = cell;
        }

        /** That of this worker, whose number is the first that no worker of the cell has had. */
        static synchronized Ledger of(String folder, String cell) {
            for (int number = 1; mine == null; number++) {
                Path file = Path.of(folder, "worker-" + number + ".jsonl");
                try {
                    Files.createFile(file);
                    mine = new Ledger(file, "worker-" + number, cell);
                } catch (FileAlreadyExistsException taken) {
                    continue;
                } catch (IOException error) {
                    throw new IllegalStateException("cannot write the history: " + error, error);
                }
            }
            return mine;
        }

        synchronized void tell(String fields) {
            String line = "{\"t\":" + System.nanoTime() + ",\"w\":" + System.currentTimeMillis() * 1000000L + ",\"cell\":\"" + cell
                + "\",\"by\":\"" + writer + "\"," + fields + "}\n";
            try {
                Files.write(file, line.getBytes(StandardCharsets.UTF_8), StandardOpenOption.APPEND, StandardOpenOption.WRITE);
            } catch (IOException error) {
                throw new IllegalStateException("cannot write the history: " + error, error);
            }
        }
    }
}
