package lostack;

import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.BooleanSupplier;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.zip.CRC32;
import org.apache.kafka.clients.consumer.ConsumerInterceptor;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.ProducerInterceptor;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.internals.RocksDBStore;
import org.apache.kafka.streams.state.internals.WrappedStateStore;
import org.rocksdb.FlushOptions;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksDBException;

/**
 * One instance of a Kafka Streams application: topic, work, topic. Compiled by ecj into the cache.
 *
 * <p>Its words are {@code name=value}: those that begin with {@code stage.} are ours, the others Kafka Streams' own settings. Its
 * ledger and its failpoints are those of harness.model.history and harness.failpoint. A failpoint holds the thread that does the
 * work, for the harness to kill or pause the process; its clients go on meanwhile.
 */
public final class StreamsStage {
    static final String STORE = "state";
    static final String CHANGELOG = "-" + STORE + "-changelog";
    static final long WITHIN_MS = 60_000;
    static final Duration LATER = Duration.ofMillis(200);
    private static final Map<String, String> STAGE = new HashMap<>();

    private StreamsStage() {}

    /** What this instance was told: {@code topology} (map, dedup, count, later), {@code in}, {@code out}, ... */
    static String told(String name) {
        return STAGE.getOrDefault(name, "");
    }

    static boolean is(String name) {
        return told(name).equals("true");
    }

    public static void main(String[] words) throws Exception {
        var settings = new Properties();
        for (var word : words) {
            var parts = word.split("=", 2);
            if (parts[0].startsWith("stage.")) {
                STAGE.put(parts[0].substring("stage.".length()), parts[1]);
            } else {
                settings.put(parts[0], parts[1]);
            }
        }
        settings.put("default.key.serde", Serdes.ByteArraySerde.class);
        settings.put("default.value.serde", Serdes.ByteArraySerde.class);
        settings.put("main.consumer.interceptor.classes", Epochs.class.getName());
        settings.put("producer.interceptor.classes", Attempts.class.getName());
        var topology = topology();
        if (!told("turn").isEmpty()) { // it stands by: what costs time is behind it, and it has touched nothing that it shares
            RocksDB.loadLibrary();
            Class.forName(KafkaStreams.class.getName());
            await(() -> Files.exists(Path.of(told("turn"))), Long.MAX_VALUE, "its turn");
        }
        var streams = new KafkaStreams(topology, settings);
        var over = new CountDownLatch(1);
        streams.setStateListener((now, before) -> {
            if (now == KafkaStreams.State.RUNNING) {
                History.ledger("ready", "\"role\":\"processor\"");
            } else if (now == KafkaStreams.State.NOT_RUNNING || now == KafkaStreams.State.ERROR) {
                over.countDown();
            }
        });
        streams.setUncaughtExceptionHandler(error -> {
            History.ledger("stopped", "\"kind\":\"error\",\"because\":\"" + History.text(cause(error)) + "\"");
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
        streams.start();
        over.await();
    }

    private static String cause(Throwable error) {
        var last = error;
        while (last.getCause() != null) {
            last = last.getCause();
        }
        return error + (last == error ? "" : ", by " + last);
    }

    private static Topology topology() {
        var builder = new StreamsBuilder();
        var bytes = Serdes.ByteArray();
        String[] stores = {};
        if (!told("topology").equals("map")) {
            var disk = Stores.persistentKeyValueStore(STORE);
            builder.addStateStore(Stores.keyValueStoreBuilder(disk, bytes, bytes).withCachingDisabled());
            stores = new String[] {STORE};
        }
        builder.stream(told("in"), Consumed.with(bytes, bytes)).process(Work::new, stores)
            .to(told("out"), Produced.with(bytes, bytes));
        return builder.build();
    }

    static void await(BooleanSupplier holds, long withinMs, String what) throws Exception {
        var until = withinMs == Long.MAX_VALUE ? withinMs : System.nanoTime() / 1_000_000 + withinMs;
        while (!holds.getAsBoolean()) {
            if (System.nanoTime() / 1_000_000 > until) {
                throw new TimeoutException("waited " + withinMs + " ms for " + what);
            }
            Thread.sleep(5);
        }
    }

    /** What is done with each record. */
    static final class Work implements Processor<byte[], byte[], byte[], byte[]> {
        private final Set<Integer> resumed = new HashSet<>();
        private ProcessorContext<byte[], byte[]> context;
        private KeyValueStore<byte[], byte[]> store;

        @Override
        public void init(ProcessorContext<byte[], byte[]> given) {
            context = given;
            store = told("topology").equals("map") ? null : given.getStateStore(STORE);
            if (told("topology").equals("later")) {
                given.schedule(LATER, PunctuationType.WALL_CLOCK_TIME, this::release);
            }
        }

        /** Send what was kept for long enough, in the order in which it came, by the clock and whether anything arrives or not. */
        private void release(long now) {
            var due = new TreeMap<Long, String[]>();
            try (var all = store.all()) {
                all.forEachRemaining(each -> {
                    var parts = new String(each.value, StandardCharsets.US_ASCII).split("\n", 4);
                    if (now >= Long.parseLong(parts[0]) + Long.parseLong(told("keeps"))) {
                        due.put(Long.parseLong(parts[2].substring(parts[2].lastIndexOf('.') + 1)), parts);
                    }
                });
            }
            due.values().forEach(parts -> {
                var value = parts[3].getBytes(StandardCharsets.US_ASCII);
                send(parts[1].getBytes(StandardCharsets.US_ASCII), value, now, parts[2]);
                store.delete(Payload.of(value).record().getBytes(StandardCharsets.US_ASCII));
            });
            if (!due.isEmpty()) {
                context.commit();
            }
        }

        private void send(byte[] key, byte[] result, long time, String origin) {
            var headers = new RecordHeaders();
            headers.add("lostack-origin", origin.getBytes(StandardCharsets.US_ASCII));
            context.forward(new Record<>(key, result, time, headers));
        }

        @Override
        public void process(Record<byte[], byte[]> record) {
            var at = context.recordMetadata().orElseThrow();
            var payload = Payload.of(record.value());
            if (resumed.add(at.partition())) {
                History.ledger("resumed", "\"where\":\"" + context.applicationId() + "\",\"partition\":" + at.partition()
                    + ",\"position\":" + at.offset());
            }
            var epoch = Epochs.of(at.topic(), at.partition(), at.offset());
            var place = at.partition() + "." + epoch + "." + at.offset();
            var told = "\"record\":\"" + payload.record() + "\",\"partition\":" + at.partition() + ",\"epoch\":" + epoch
                + ",\"offset\":" + at.offset();
            History.ledger("delivered", told);
            try {
                Failpoint.pass("before-processing", payload.record());
                if (told("topology").equals("later")) {
                    var kept = context.currentSystemTimeMs() + "\n" + new String(record.key(), StandardCharsets.US_ASCII) + "\n"
                        + place + "\n" + new String(record.value(), StandardCharsets.US_ASCII);
                    store.put(payload.record().getBytes(StandardCharsets.US_ASCII), kept.getBytes(StandardCharsets.US_ASCII));
                    context.commit();
                    return;
                }
                var result = result(record, payload);
                if (result == null) {
                    History.ledger("absorbed", told + ",\"place\":\"" + place.replace('.', ':') + "\"");
                } else {
                    Failpoint.pass("before-recording", payload.record());
                    send(record.key(), result, record.timestamp(), place);
                    Failpoint.pass("before-commit", payload.record());
                }
            } catch (Exception wrong) {
                throw new IllegalStateException(wrong);
            }
            if (is("each")) {
                context.commit();
            }
        }

        /** Return the result of a record; null: it was here before, and has none. */
        private byte[] result(Record<byte[], byte[]> record, Payload payload) throws Exception {
            if (store == null) {
                return record.value();
            }
            byte[] result;
            if (told("topology").equals("dedup")) {
                var id = payload.record().getBytes(StandardCharsets.US_ASCII);
                if (store.get(id) != null) {
                    return null;
                }
                store.put(id, new byte[] {1});
                result = record.value();
            } else {
                var folded = folded(store.get(record.key()));
                folded.merge(payload.record(), 1, Integer::sum);
                var body = new StringBuilder();
                folded.forEach((id, times) -> body.append(id).append('=').append(times).append(' '));
                var state = body.toString().getBytes(StandardCharsets.US_ASCII);
                store.put(record.key(), state);
                result = payload.with(state);
            }
            if (is("step")) {
                await(() -> Attempts.CHANGES.get() == 0, WITHIN_MS, "the changelog to have what the state has");
            }
            if (is("flush")) {
                flush();
            }
            return result;
        }

        /** Write what is in memory of the store to the disk, as RocksDB does by itself when its memory is full. */
        private void flush() throws ReflectiveOperationException, RocksDBException {
            StateStore disk = store;
            while (disk instanceof WrappedStateStore<?, ?, ?> around) {
                disk = around.wrapped();
            }
            var opened = RocksDBStore.class.getDeclaredField("db");
            opened.setAccessible(true);
            try (var whole = new FlushOptions().setWaitForFlush(true)) {
                ((RocksDB) opened.get(disk)).flush(whole);
            }
        }

        private static TreeMap<String, Integer> folded(byte[] state) {
            var found = new TreeMap<String, Integer>();
            for (var word : state == null ? new String[0] : new String(state, StandardCharsets.US_ASCII).trim().split(" ")) {
                var parts = word.split("=");
                found.put(parts[0], Integer.parseInt(parts[1]));
            }
            return found;
        }
    }

    /** A payload of harness.model.record. */
    record Payload(String head, String record) {
        static Payload of(byte[] value) {
            var text = new String(value, StandardCharsets.US_ASCII);
            var words = text.substring(0, text.indexOf('\n')).split(" ");
            return new Payload(words[1] + " " + words[2] + " " + words[3], words[2]);
        }

        /** The same payload with another body. */
        byte[] with(byte[] body) {
            var sum = new CRC32();
            sum.update((head + "\n").getBytes(StandardCharsets.US_ASCII));
            sum.update(body);
            var line = "lostack " + head + " " + String.format("%08x", sum.getValue()) + "\n";
            return (line + new String(body, StandardCharsets.US_ASCII)).getBytes(StandardCharsets.US_ASCII);
        }
    }

    /** The leader's epoch of each record, which the one that works on it is not told. */
    public static final class Epochs implements ConsumerInterceptor<byte[], byte[]> {
        private static final Map<String, Integer> KNOWN = new ConcurrentHashMap<>();

        static int of(String topic, int partition, long offset) {
            return KNOWN.getOrDefault(topic + "/" + partition + "/" + offset, -1);
        }

        @Override
        public ConsumerRecords<byte[], byte[]> onConsume(ConsumerRecords<byte[], byte[]> records) {
            for (ConsumerRecord<byte[], byte[]> each : records) {
                KNOWN.put(each.topic() + "/" + each.partition() + "/" + each.offset(), each.leaderEpoch().orElse(-1));
            }
            return records;
        }

        @Override
        public void onCommit(Map<TopicPartition, OffsetAndMetadata> offsets) {}

        @Override
        public void close() {}

        @Override
        public void configure(Map<String, ?> settings) {}
    }

    /** Names every attempt to send a result, and counts what the changelog has not acknowledged yet. */
    public static final class Attempts implements ProducerInterceptor<byte[], byte[]> {
        static final AtomicLong CHANGES = new AtomicLong();
        private static final AtomicLong NUMBER = new AtomicLong();

        @Override
        public ProducerRecord<byte[], byte[]> onSend(ProducerRecord<byte[], byte[]> record) {
            if (record.topic().endsWith(CHANGELOG)) {
                CHANGES.incrementAndGet();
            } else {
                var name = told("by") + ".0." + NUMBER.incrementAndGet();
                record.headers().add("lostack-attempt", name.getBytes(StandardCharsets.US_ASCII));
            }
            return record;
        }

        @Override
        public void onAcknowledgement(RecordMetadata stored, Exception error) {
            if (error == null && stored.topic().endsWith(CHANGELOG)) {
                CHANGES.decrementAndGet();
            }
        }

        @Override
        public void close() {}

        @Override
        public void configure(Map<String, ?> settings) {}
    }

    /** The places where the harness may want this instance to stand still. */
    static final class Failpoint {
        private static final Pattern FIELD = Pattern.compile("\"(record|history|cell|action)\": ?\"([^\"]*)\"");

        static void pass(String name, String record) throws Exception {
            var armed = Path.of(told("failpoints"), name + ".json");
            var order = new HashMap<String, String>();
            try {
                Matcher found = FIELD.matcher(Files.readString(armed));
                while (found.find()) {
                    order.put(found.group(1), found.group(2));
                }
                if (!record.equals(order.get("record"))) {
                    return;
                }
                Files.move(armed, Path.of(told("failpoints"), name + ".fired"), StandardCopyOption.ATOMIC_MOVE);
            } catch (NoSuchFileException none) {
                return;
            }
            try (var history = new History(order.get("history"), "failpoint")) {
                history.write("failpoint", "\"name\":\"" + name + "\",\"record\":\"" + record + "\",\"hit\":1,\"action\":\""
                    + order.get("action") + "\",\"pid\":" + ProcessHandle.current().pid());
            }
            await(() -> Files.exists(Path.of(told("failpoints"), name + ".go")), 10 * WITHIN_MS, "the harness to act on " + name);
        }
    }

    /** Appends lines to a history, each whole or not at all. */
    static final class History implements AutoCloseable {
        private static History ledger;
        private final FileChannel file;
        private final String by;
        private long lines;

        History(String path, String by) throws IOException {
            this.by = by;
            file = FileChannel.open(Path.of(path), StandardOpenOption.CREATE, StandardOpenOption.APPEND, StandardOpenOption.WRITE);
        }

        /** Write into this instance's ledger, which no other writes into. */
        static synchronized void ledger(String event, String fields) {
            try {
                if (ledger == null) {
                    ledger = new History(told("history") + File.separator + told("by") + ".jsonl", told("by"));
                }
                ledger.write(event, fields);
            } catch (IOException error) {
                throw new IllegalStateException("cannot write the history: " + error, error);
            }
        }

        synchronized void write(String event, String fields) throws IOException {
            var line = "{\"line\":" + ++lines + ",\"t\":" + System.nanoTime() + ",\"w\":" + System.currentTimeMillis() * 1_000_000
                + ",\"cell\":\"" + told("cell") + "\",\"by\":\"" + by + "\",\"event\":\"" + event + "\"," + fields + "}\n";
            var bytes = line.getBytes(StandardCharsets.US_ASCII);
            if (file.write(ByteBuffer.wrap(bytes)) != bytes.length) {
                throw new IOException("only a part of a line fitted: is the disk full?");
            }
        }

        static String text(String said) {
            return said.replaceAll("[^ -~]", " ").replace("\\", "\\\\").replace("\"", "\\\"");
        }

        @Override
        public void close() throws IOException {
            file.close();
        }
    }
}
