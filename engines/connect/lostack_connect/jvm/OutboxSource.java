package lostack.connect;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.source.ExactlyOnceSupport;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;

/** A source of the lines of a file, each a key and a payload in base 64; the next line's number is the source offset. */
public final class OutboxSource extends SourceConnector {
    private Map<String, String> config;

    @Override public void start(Map<String, String> given) { config = given; }

    @Override public Class<? extends Task> taskClass() { return Reader.class; }

    @Override public List<Map<String, String>> taskConfigs(int most) { return List.of(config); }

    @Override public void stop() {}

    @Override public ConfigDef config() { return new ConfigDef(); }

    @Override public String version() { return "1"; }

    @Override public ExactlyOnceSupport exactlyOnceSupport(Map<String, String> given) { return ExactlyOnceSupport.SUPPORTED; }

    /** The one task. In step, it gives the next line only when the offset behind the one before is saved. */
    public static final class Reader extends SourceTask {
        private static final Map<String, String> SOURCE = Map.of("source", "outbox");
        private List<String> lines;
        private int next;
        private int ahead;
        private int attempts;
        private boolean step;
        private String topic;
        private volatile int open;
        private volatile int flushes;

        @Override public void start(Map<String, String> given) {
            try {
                lines = Files.readAllLines(Path.of(given.get("file")));
            } catch (IOException error) {
                throw new ConnectException(error);
            }
            ahead = Integer.parseInt(given.get("ahead"));
            step = given.get("step").equals("true");
            topic = given.get("topic");
            var saved = context.offsetStorageReader().offset(SOURCE);
            next = saved == null ? 1 : ((Number) saved.get("position")).intValue();
            Ledger.write("resumed", "\"where\":\"source\",\"partition\":null,\"position\":" + next);
            Ledger.write("ready", "\"role\":\"producer\"");
        }

        @Override public List<SourceRecord> poll() throws InterruptedException {
            if (next > lines.size() || step && (open > 0 || flushes > 0)) {
                Thread.sleep(5);
                return null;
            }
            var words = lines.get(next - 1).split(" ");
            var value = Base64.getDecoder().decode(words[1]);
            Ledger.write("taken", "\"record\":\"" + Ledger.record(value) + "\"");
            Ledger.pass("before-send", Ledger.record(value));
            var headers = new ConnectHeaders().addBytes("lostack-attempt", ascii(Ledger.BY + ".0." + ++attempts));
            var offset = Map.of("position", Math.min(++next + ahead, lines.size() + 1));
            flushes = 2; // the first may have begun before the acknowledgement
            open = 1;
            return List.of(new SourceRecord(SOURCE, offset, topic, null, Schema.BYTES_SCHEMA, ascii(words[0]), Schema.BYTES_SCHEMA, value,
                null, headers));
        }

        private static byte[] ascii(String text) { return text.getBytes(StandardCharsets.US_ASCII); }

        @Override public void commitRecord(SourceRecord sent, RecordMetadata stored) {
            Ledger.write("acked", "\"hop\":\"topic\",\"record\":\"" + Ledger.record((byte[]) sent.value()) + "\",\"partition\":"
                + stored.partition() + ",\"offset\":" + stored.offset());
            open = 0;
        }

        @Override public void commit() { flushes -= open == 0 && flushes > 0 ? 1 : 0; }

        @Override public void stop() {}

        @Override public String version() { return "1"; }
    }
}
