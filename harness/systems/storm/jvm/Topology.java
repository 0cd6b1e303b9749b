package lostack;

import java.io.Serializable;
import java.nio.charset.StandardCharsets;
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
import org.apache.storm.generated.StormTopology;
import org.apache.storm.kafka.bolt.KafkaBolt;
import org.apache.storm.kafka.bolt.mapper.FieldNameBasedTupleToKafkaMapper;
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
    private Topology() {
    }

    static StormTopology of(Map<String, String> told) {
        KafkaSpoutConfig.Builder<byte[], byte[]> spout =
            new KafkaSpoutConfig.Builder<>(told.get("bootstrap"), new String[] {told.get("in")});
        spout.setProp(below(told, "spout."))
            .setProp("key.deserializer", ByteArrayDeserializer.class.getName())
            .setProp("value.deserializer", ByteArrayDeserializer.class.getName())
            .setRecordTranslator(new Reading())
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
        if (told.get("apart").equals("true")) {
            // executors go round the workers by the names of their components: the acker is alone with the two that do nothing
            builder.setBolt("skip", new Idle(), 1).shuffleGrouping("work", Idle.STREAM);
            builder.setBolt("stay", new Idle(), 1).shuffleGrouping("work", Idle.STREAM);
        }
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

    static String idOf(byte[] value) {
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
            Losing.written = idOf(copy.value);
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
            anchored = (Boolean) conf.get(Ledger.TOLD + "anchored");
            group = (String) conf.get(Ledger.TOLD + "group");
            ledger = Ledger.of(conf, "worker");
            ledger.ready();
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
                ledger.resumed(group, partition, offset);
            }
            ledger.delivered(idOf(copy.value), partition, epoch, offset);
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
            declarer.declareStream(Idle.STREAM, new Fields("nothing"));
        }
    }

    /** Is given nothing. Its worker is the acker's, of which it says that it does its work. */
    static final class Idle extends BaseRichBolt {
        static final String STREAM = "nothing";
        private static final long serialVersionUID = 1L;

        @Override
        public void prepare(Map<String, Object> conf, TopologyContext context, OutputCollector given) {
            if (context.getThisComponentId().equals("stay")) {
                Ledger.of(conf, "acker").ready();
            }
        }

        @Override
        public void execute(Tuple tuple) {
            throw new IllegalStateException("nobody sends anything here");
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            // nothing
        }
    }
}
