package lostack.connect;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.HashMap;
import java.util.regex.Pattern;
import org.apache.kafka.connect.errors.ConnectException;

/** The ledger and the failpoints of a worker, in the forms of harness.model.history and harness.failpoint. */
final class Ledger {
    static final String BY = told("BY");
    private static final Pattern FIELD = Pattern.compile("\"(record|history|action)\": ?\"([^\"]*)\"");
    private static final Path FAILPOINTS = Path.of(told("FAILPOINTS"));
    private static FileChannel file;
    private static long lines;

    private Ledger() {}

    private static String told(String name) {
        return System.getenv("LOSTACK_" + name);
    }

    static synchronized void write(String event, String fields) {
        try {
            if (file == null) {
                file = opened(Path.of(told("HISTORY"), BY + ".jsonl"));
            }
            append(file, ++lines, BY, event, fields);
        } catch (IOException error) {
            throw new IllegalStateException("cannot write the history: " + error, error);
        }
    }

    private static FileChannel opened(Path path) throws IOException {
        return FileChannel.open(path, StandardOpenOption.CREATE, StandardOpenOption.APPEND, StandardOpenOption.WRITE);
    }

    private static void append(FileChannel to, long line, String by, String event, String fields) throws IOException {
        var text = "{\"line\":" + line + ",\"t\":" + System.nanoTime() + ",\"w\":" + System.currentTimeMillis() * 1_000_000
            + ",\"cell\":\"" + told("CELL") + "\",\"by\":\"" + by + "\",\"event\":\"" + event + "\"," + fields + "}\n";
        var bytes = text.getBytes(StandardCharsets.US_ASCII);
        if (to.write(ByteBuffer.wrap(bytes)) != bytes.length) {
            throw new IOException("only a part of a line fitted: is the disk full?");
        }
    }

    /** Stand still here, or fail, if the harness has armed this name for this record. */
    static void pass(String name, String record) {
        var order = new HashMap<String, String>();
        try {
            var armed = FAILPOINTS.resolve(name + ".json");
            var found = FIELD.matcher(Files.readString(armed));
            while (found.find()) {
                order.put(found.group(1), found.group(2));
            }
            if (!record.equals(order.get("record"))) {
                return;
            }
            Files.move(armed, FAILPOINTS.resolve(name + ".fired"), StandardCopyOption.ATOMIC_MOVE);
        } catch (NoSuchFileException none) {
            return;
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
        try (var history = opened(Path.of(order.get("history")))) {
            append(history, 1, "failpoint", "failpoint", "\"name\":\"" + name + "\",\"record\":\"" + record
                + "\",\"hit\":1,\"action\":\"" + order.get("action") + "\",\"pid\":" + ProcessHandle.current().pid());
        } catch (IOException error) {
            throw new IllegalStateException("cannot write the history: " + error, error);
        }
        if ("fail".equals(order.get("action"))) {
            throw new ConnectException("the work on " + record + " failed, as lostack said");
        }
        while (!Files.exists(FAILPOINTS.resolve(name + ".go"))) {
            try {
                Thread.sleep(5);
            } catch (InterruptedException error) {
                throw new IllegalStateException(error);
            }
        }
    }

    /** The id in a payload of harness.model.record. */
    static String record(byte[] value) {
        return new String(value, StandardCharsets.US_ASCII).split("[ \n]", 4)[2];
    }
}
