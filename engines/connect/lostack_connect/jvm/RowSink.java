package lostack.connect;

import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.clients.consumer.ConsumerInterceptor;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.errors.DataException;
import org.apache.kafka.connect.sink.SinkConnector;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.sink.SinkTask;
import org.apache.kafka.connect.transforms.Transformation;

/** A sink of rows in the database of harness.stages.sinks.database. */
public final class RowSink extends SinkConnector {
    private Map<String, String> config;

    @Override public void start(Map<String, String> given) { config = given; }

    @Override public Class<? extends Task> taskClass() { return Writer.class; }

    @Override public List<Map<String, String>> taskConfigs(int most) { return List.of(config); }

    @Override public void stop() {}

    @Override public ConfigDef config() { return new ConfigDef(); }

    @Override public String version() { return "1"; }

    /** The one task: it writes each row at once and by itself ({@code late}: a while after the framework may commit). */
    public static final class Writer extends SinkTask {
        private final Set<Integer> resumed = new HashSet<>();
        private final List<SinkRecord> waiting = new ArrayList<>();
        private Connection database;
        private boolean upsert;
        private boolean late;
        private String bad;
        private long since;

        @Override public void start(Map<String, String> given) {
            try {
                database = DriverManager.getConnection("jdbc:sqlite:" + given.get("file"));
                database.createStatement().execute("PRAGMA busy_timeout=10000");
                database.createStatement().execute("PRAGMA synchronous=OFF");
                database.setAutoCommit(false);
            } catch (SQLException error) {
                throw new ConnectException(error);
            }
            upsert = given.get("mode").equals("upsert");
            late = given.get("mode").equals("late");
            bad = given.get("bad");
        }

        @Override public void open(Collection<TopicPartition> partitions) {
            resumed.clear();
            if (!partitions.isEmpty()) {
                Ledger.write("ready", "\"role\":\"consumer\"");
            }
        }

        @Override public void put(Collection<SinkRecord> given) {
            for (var each : given) {
                if (resumed.add(each.kafkaPartition())) {
                    Ledger.write("resumed", "\"where\":\"group\",\"partition\":" + each.kafkaPartition() + ",\"position\":" + each.kafkaOffset());
                }
                var record = Ledger.record((byte[]) each.value());
                Ledger.write("delivered", "\"record\":\"" + record + "\",\"partition\":" + each.kafkaPartition() + ",\"epoch\":"
                    + Epochs.of(each) + ",\"offset\":" + each.kafkaOffset());
                Ledger.pass("before-processing", record);
                if (record.equals(bad)) {
                    context.errantRecordReporter().report(each, new DataException(record + " is not to be written"));
                    continue;
                }
                waiting.add(each);
                since = System.nanoTime();
            }
            if (late && System.nanoTime() - since < 2_000_000_000L) {
                given = List.of();
            } else {
                given = List.copyOf(waiting);
                waiting.clear();
            }
            for (var each : given) {
                var record = Ledger.record((byte[]) each.value());
                Ledger.pass("before-recording", record);
                write(each, record);
                Ledger.pass("before-commit", record);
            }
            context.requestCommit();
        }

        private void write(SinkRecord row, String record) {
            try {
                if (upsert && run("INSERT OR IGNORE INTO processed VALUES (?)", record) == 0) {
                    run("INSERT INTO absorbed (id, partition, epoch, offset) VALUES (?, ?, ?, ?)", record, row.kafkaPartition(),
                        Epochs.of(row), row.kafkaOffset());
                } else {
                    run("INSERT INTO results (value, key, partition, epoch, offset) VALUES (?, ?, ?, ?, ?)", row.value(),
                        new String((byte[]) row.key(), StandardCharsets.US_ASCII), row.kafkaPartition(), Epochs.of(row), row.kafkaOffset());
                }
                database.commit();
            } catch (SQLException error) {
                throw new ConnectException(error);
            }
        }

        private int run(String statement, Object... values) throws SQLException {
            try (var prepared = database.prepareStatement(statement)) {
                for (int at = 0; at < values.length; at++) {
                    prepared.setObject(at + 1, values[at]);
                }
                return prepared.executeUpdate();
            }
        }

        @Override public void stop() {}

        @Override public String version() { return "1"; }
    }

    /** A transformation that refuses one record. */
    public static final class Refusal implements Transformation<SinkRecord> {
        private String bad;

        @Override public void configure(Map<String, ?> given) { bad = String.valueOf(given.get("bad")); }

        @Override public SinkRecord apply(SinkRecord given) {
            if (Ledger.record((byte[]) given.value()).equals(bad)) {
                throw new DataException(bad + " is not to be written");
            }
            return given;
        }

        @Override public ConfigDef config() {
            return new ConfigDef().define("bad", ConfigDef.Type.STRING, ConfigDef.Importance.LOW, "the id of the record");
        }

        @Override public void close() {}
    }

    /** The leader's epoch of each record, which a task is not told. */
    public static final class Epochs implements ConsumerInterceptor<byte[], byte[]> {
        private static final Map<String, Integer> KNOWN = new ConcurrentHashMap<>();

        static int of(SinkRecord row) {
            return KNOWN.getOrDefault(row.topic() + "/" + row.kafkaPartition() + "/" + row.kafkaOffset(), -1);
        }

        @Override public ConsumerRecords<byte[], byte[]> onConsume(ConsumerRecords<byte[], byte[]> records) {
            records.forEach(each -> KNOWN.put(each.topic() + "/" + each.partition() + "/" + each.offset(), each.leaderEpoch().orElse(-1)));
            return records;
        }

        @Override public void onCommit(Map<TopicPartition, OffsetAndMetadata> offsets) {}

        @Override public void close() {}

        @Override public void configure(Map<String, ?> settings) {}
    }
}
