package lostack.flink;

import java.io.IOException;
import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.locks.LockSupport;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.sink.KafkaSinkBuilder;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/**
 * The job of a cell: KafkaSource, then a state for each key that holds the ids of all its records, then KafkaSink.
 *
 * What it does it writes down, in the history of its cell: from where it goes on, each record that it is given, the state of
 * its key then, and how far it had read at each checkpoint. Settings come as words {@code name=value}: those that begin with
 * {@code flink.}, {@code source.} and {@code sink.} go on to who they are for.
 */
public final class Job {
    private Job() {}

    public static void main(String[] words) throws Exception {
        Properties told = new Properties();
        for (String word : words) {
            int at = word.indexOf('=');
            told.setProperty(word.substring(0, at), word.substring(at + 1));
        }
        Configuration configuration = new Configuration();
        below(told, "flink.").forEach((name, value) -> configuration.setString((String) name, (String) value));
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment(configuration);
        environment.configure(configuration);

        KafkaSinkBuilder<Copy> sink = KafkaSink.<Copy>builder()
            .setBootstrapServers(told.getProperty("bootstrap"))
            .setRecordSerializer(new Writing(told.getProperty("out")))
            .setKafkaProducerConfig(below(told, "sink."));
        if (told.containsKey("guarantee")) {
            sink.setDeliveryGuarantee(DeliveryGuarantee.valueOf(told.getProperty("guarantee")));
        }
        if (told.containsKey("prefix")) {
            sink.setTransactionalIdPrefix(told.getProperty("prefix"));
        }
        if (told.containsKey("naming")) {
            Sinks.name(sink, told.getProperty("naming"));
        }
        Ledger ledger = new Ledger(told.getProperty("history"), told.getProperty("cell"), told.getProperty("name"));
        int partitions = Integer.parseInt(told.getProperty("partitions"));
        int inputs = Integer.parseInt(told.getProperty("inputs"));
        DataStream<Copy> read = null;
        for (int input = 0; input < inputs; input++) {
            String name = inputs == 1 ? "source" : "source-" + input;
            KafkaSource<Copy> source = source(told, new Reading(ledger, told.getProperty("failpoint")), input, inputs, partitions);
            DataStream<Copy> one = environment.fromSource(source, WatermarkStrategy.noWatermarks(), name).uid(name);
            read = read == null ? one : read.union(one);
        }
        read.keyBy(copy -> copy.key)
            .process(new Counting(ledger, partitions)).uid("state").name("state")
            .sinkTo(sink.build()).uid("sink").name("sink");
        environment.execute(told.getProperty("name"));
    }

    /** Of several inputs each reads every how-many-th partition. */
    private static KafkaSource<Copy> source(Properties told, Reading reading, int input, int inputs, int partitions) {
        Set<TopicPartition> own = new HashSet<>();
        for (int partition = input; partition < partitions; partition += inputs) {
            own.add(new TopicPartition(told.getProperty("in"), partition));
        }
        return KafkaSource.<Copy>builder()
            .setBootstrapServers(told.getProperty("bootstrap"))
            .setPartitions(own)
            .setGroupId(told.getProperty("group"))
            .setClientIdPrefix(told.getProperty("client"))
            .setStartingOffsets(OffsetsInitializer.earliest())
            .setDeserializer(reading)
            .setProperties(below(told, "source."))
            .build();
    }

    private static String idOf(byte[] value) {
        String[] words = new String(value, StandardCharsets.ISO_8859_1).split("\n", 2)[0].split(" ");
        return words.length > 2 ? words[2] : "";
    }

    private static Properties below(Properties told, String prefix) {
        Properties found = new Properties();
        for (String name : told.stringPropertyNames()) {
            if (name.startsWith(prefix)) {
                found.setProperty(name.substring(prefix.length()), told.getProperty(name));
            }
        }
        return found;
    }

    /** One copy in the source's log; on its way to the sink, with the name of the attempt. */
    public static final class Copy {
        public String key;
        public byte[] value;
        public int partition;
        public long offset;
        public int epoch;
        public String attempt = "";

        public Copy() {}
    }

    /**
     * Reads copies, of whatever payload. In the thread of its source, which passes barriers on between two records: where it
     * stands still no barrier comes by. It does at the record whose id is in the file {@code failpoint}, once.
     */
    public static final class Reading implements KafkaRecordDeserializationSchema<Copy> {
        private static final long serialVersionUID = 1L;
        private final Ledger ledger;
        private final String failpoint;

        Reading(Ledger ledger, String failpoint) {
            this.ledger = ledger;
            this.failpoint = failpoint;
        }

        @Override
        public void deserialize(ConsumerRecord<byte[], byte[]> record, Collector<Copy> out) throws IOException {
            pass(idOf(record.value()), record.partition());
            Copy copy = new Copy();
            copy.key = record.key() == null ? "" : new String(record.key(), StandardCharsets.UTF_8);
            copy.value = record.value();
            copy.partition = record.partition();
            copy.offset = record.offset();
            copy.epoch = record.leaderEpoch().orElse(-1);
            out.collect(copy);
        }

        @Override
        public TypeInformation<Copy> getProducedType() {
            return Types.POJO(Copy.class);
        }

        private void pass(String id, int partition) throws IOException {
            Path armed = Paths.get(failpoint);
            if (!Files.exists(armed) || !Files.readString(armed).equals(id)) {
                return;
            }
            Files.delete(armed);
            ledger.tell("source", "\"event\":\"failpoint\",\"name\":\"before-reading\",\"record\":\"" + id
                + "\",\"hit\":1,\"action\":\"hold\",\"pid\":" + ProcessHandle.current().pid() + ",\"partition\":" + partition);
            while (!Thread.currentThread().isInterrupted()) {
                LockSupport.park();
            }
        }
    }

    /** Writes them, with headers that name the attempt and the copy that it was made of. */
    public static final class Writing implements Sinks.ToOneTopic<Copy> {
        private static final long serialVersionUID = 1L;
        private final String topic;

        Writing(String topic) {
            this.topic = topic;
        }

        @Override
        public String topic() {
            return topic;
        }

        @Override
        public ProducerRecord<byte[], byte[]> serialize(Copy copy, KafkaSinkContext context, Long timestamp) {
            ProducerRecord<byte[], byte[]> record =
                new ProducerRecord<>(topic, copy.key.getBytes(StandardCharsets.UTF_8), copy.value);
            String origin = copy.partition + "." + copy.epoch + "." + copy.offset;
            record.headers().add("lostack-attempt", copy.attempt.getBytes(StandardCharsets.US_ASCII));
            record.headers().add("lostack-origin", origin.getBytes(StandardCharsets.US_ASCII));
            return record;
        }
    }

    /** Keeps the ids of each key, and how far each partition was read: state and positions of one snapshot. */
    public static final class Counting extends KeyedProcessFunction<String, Copy, Copy> implements CheckpointedFunction {
        private static final long serialVersionUID = 1L;
        private final Ledger ledger;
        private final int partitions;
        private transient ListState<String> seen;
        private transient ListState<String> saved;
        /** By partition: where the interval since the last checkpoint begins, and how far it was read. */
        private transient Map<Integer, Long> begins;
        private transient Map<Integer, Long> positions;
        /** By key: what was added since the last checkpoint. */
        private transient Map<String, List<String>> news;
        private transient String writer;
        private transient long interval;
        private transient long number;

        Counting(Ledger ledger, int partitions) {
            this.ledger = ledger;
            this.partitions = partitions;
        }

        @Override
        public void initializeState(FunctionInitializationContext context) throws Exception {
            writer = ledger.name + "-" + (getRuntimeContext().getTaskInfo().getAttemptNumber() + 1);
            begins = new TreeMap<>();
            positions = new TreeMap<>();
            news = new HashMap<>();
            saved = context.getOperatorStateStore().getUnionListState(new ListStateDescriptor<>("positions", Types.STRING));
            interval = context.getRestoredCheckpointId().orElse(0);
            for (String each : saved.get()) {
                String[] words = each.split(" ");
                begins.merge(Integer.valueOf(words[0]), Long.valueOf(words[1]), Math::max);
            }
            positions.putAll(begins);
            for (int partition = 0; partition < partitions; partition++) {
                tell("\"event\":\"resumed\",\"where\":\"job\",\"partition\":" + partition + ",\"position\":"
                    + begins.getOrDefault(partition, 0L) + ",\"batch\":" + interval);
            }
        }

        @Override
        public void open(OpenContext context) throws Exception {
            seen = getRuntimeContext().getListState(new ListStateDescriptor<>("seen", Types.STRING));
            tell("\"event\":\"ready\",\"role\":\"processor\"");
        }

        @Override
        public void processElement(Copy copy, Context context, Collector<Copy> out) throws Exception {
            String id = idOf(copy.value);
            seen.add(id);
            begins.putIfAbsent(copy.partition, 0L);
            positions.merge(copy.partition, copy.offset + 1, Math::max);
            news.computeIfAbsent(copy.key, key -> new ArrayList<>()).add(id);
            List<String> ids = new ArrayList<>();
            seen.get().forEach(ids::add);
            tell("\"event\":\"delivered\",\"record\":\"" + id + "\",\"partition\":" + copy.partition + ",\"epoch\":" + copy.epoch
                + ",\"offset\":" + copy.offset);
            tell("\"event\":\"state\",\"batch\":" + interval + ",\"key\":\"" + copy.key + "\",\"records\":" + quoted(ids)
                + ",\"news\":" + quoted(news.get(copy.key)));
            copy.attempt = writer + "." + interval + "." + ++number;
            out.collect(copy);
        }

        @Override
        public void snapshotState(FunctionSnapshotContext context) throws Exception {
            List<String> found = new ArrayList<>();
            for (Map.Entry<Integer, Long> each : positions.entrySet()) {
                found.add(each.getKey() + " " + each.getValue());
                tell("\"event\":\"batch\",\"phase\":\"snapshot\",\"batch\":" + context.getCheckpointId() + ",\"partition\":"
                    + each.getKey() + ",\"offset\":" + begins.get(each.getKey()) + ",\"position\":" + each.getValue());
            }
            saved.update(getRuntimeContext().getTaskInfo().getIndexOfThisSubtask() == 0 || !found.isEmpty() ? found : List.of());
            begins = new TreeMap<>(positions);
            news.clear();
            interval = context.getCheckpointId();
        }

        private void tell(String fields) throws IOException {
            ledger.tell(writer, fields);
        }

        private static String quoted(List<String> ids) {
            return ids.isEmpty() ? "[]" : "[\"" + String.join("\",\"", ids) + "\"]";
        }
    }

    /** Appends lines to the history, each whole or not at all, as harness.model.history does: one file for each attempt. */
    public static final class Ledger implements Serializable {
        private static final long serialVersionUID = 1L;
        private final String folder;
        private final String cell;
        private final String name;

        Ledger(String folder, String cell, String name) {
            this.folder = folder;
            this.cell = cell;
            this.name = name;
        }

        void tell(String writer, String fields) throws IOException {
            String line = "{\"t\":" + System.nanoTime() + ",\"w\":" + System.currentTimeMillis() * 1000000L + ",\"cell\":\"" + cell
                + "\",\"by\":\"" + writer + "\"," + fields + "}\n";
            Files.write(Paths.get(folder, writer + ".jsonl"), line.getBytes(StandardCharsets.UTF_8),
                StandardOpenOption.CREATE, StandardOpenOption.APPEND, StandardOpenOption.WRITE);
        }
    }
}
