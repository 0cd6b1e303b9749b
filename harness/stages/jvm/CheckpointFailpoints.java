package lostack;

import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Paths;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
// Spark 4.1 and later have the manager in the second package, older ones in the first
import org.apache.spark.sql.execution.streaming.*;
import org.apache.spark.sql.execution.streaming.checkpointing.*;

/**
 * Spark's own checkpoint file manager, with a failpoint before and after each entry of a log becomes visible.
 *
 * The offset log, the commit log and the file sink's log of a streaming query are all written by a rename to
 * {@code <log>/<batch>}. The thread that renames is the one that drives the query: while it stands still here, nothing of
 * the batch goes on. Selected by {@code spark.sql.streaming.checkpointFileManagerClass}; compiled by the Janino inside
 * Spark, so no JDK is needed. The protocol of arming is that of harness.failpoint, with the record's place in the log.
 */
public class CheckpointFailpoints extends FileContextBasedCheckpointFileManager {
    private static final Pattern FIELD = Pattern.compile("\"(partition|offset|record|history|cell|action)\": ?(\"([^\"]*)\"|-?[0-9]+)");
    private static final Pattern END = Pattern.compile("\"([0-9]+)\":([0-9]+)");
    private static final Map QUERIES = new ConcurrentHashMap();

    /** What the logs of one query share: all that is known of the batch in hand. */
    private static class Query {
        /** The folder of its cell. */
        String folder;
        /** The offsets at which the batch in hand ends, and those at which it begins: partition and offset, by text. */
        String ends = "";
        String begins = "";
        String batch = "-1";
        Path offsets;

        /** What this program was told about the query, as a property of the JVM; empty where it was told nothing. */
        String told(String name) {
            return System.getProperty("lostack." + name + ":" + folder, "");
        }
    }

    private final Query query;

    /** One manager is made for each log of the query; where the offset log is, the others are told by it. */
    public CheckpointFailpoints(Path path, Configuration conf) {
        super(path, conf);
        query = queryOf(path);
        if (path.getName().equals("offsets")) {
            query.offsets = path;
        }
    }

    /** Find the query that a log is of: that of the folder above it which the JVM was told of. */
    private static Query queryOf(Path log) {
        String folder = "";
        for (Path above = log; above != null; above = above.getParent()) {
            if (System.getProperty("lostack.cell:" + above.toUri().getPath()) != null) {
                folder = above.toUri().getPath();
                break;
            }
        }
        Query made = new Query();
        made.folder = folder;
        Query known = (Query) QUERIES.putIfAbsent(folder, made);
        return known != null ? known : made;
    }

    public void renameTempFile(Path source, Path target, boolean overwrite) {
        String log = target.getParent().getName();
        String entry = target.getName();
        boolean ours = entry.matches("[0-9]+") && (log.equals("offsets") || log.equals("commits") || log.equals("_spark_metadata"));
        if (!ours) {
            super.renameTempFile(source, target, overwrite);
            return;
        }
        try {
            if (!entry.equals(query.batch)) {
                query.batch = entry;
                query.ends = lastLine(log.equals("offsets") ? source : new Path(query.offsets, entry));
                query.begins = entry.equals("0") ? query.told("begins")
                    : lastLine(new Path(query.offsets, "" + (Integer.parseInt(entry) - 1)));
            }
            String name = log.equals("offsets") ? "offset-log" : log.equals("commits") ? "commit-log" : "sink-log";
            pass(query, "before-" + name);
            super.renameTempFile(source, target, overwrite);
            pass(query, "after-" + name);
        } catch (IOException error) {
            throw new RuntimeException(error.toString());
        }
    }

    private static String lastLine(Path file) throws IOException {
        List lines = Files.readAllLines(Paths.get(file.toUri().getPath(), new String[0]), StandardCharsets.UTF_8);
        return (String) lines.get(lines.size() - 1);
    }

    /** Pass a failpoint of the query whose cell has this file; do nothing where no query is known there. */
    static void passAt(Path file, String name) throws IOException {
        Query query = queryOf(file);
        if (!query.folder.isEmpty()) {
            pass(query, name);
        }
    }

    /** Tell the history that this batch is here; where its armed record is in it, say so and stand still until released. */
    private static void pass(Query query, String name) throws IOException {
        Matcher each = END.matcher(query.ends);
        while (each.find()) {
            tell(query, "\"event\":\"batch\",\"phase\":\"" + name + "\",\"batch\":" + query.batch + ",\"partition\":" + each.group(1)
                + ",\"offset\":" + offsetOf(query.begins, each.group(1)) + ",\"position\":" + each.group(2));
        }
        String folder = query.told("failpoints");
        if (folder.isEmpty()) {
            return;
        }
        java.nio.file.Path armed = Paths.get(folder, new String[] {name + ".json"});
        String order;
        try {
            order = new String(Files.readAllBytes(armed), StandardCharsets.UTF_8);
        } catch (NoSuchFileException none) {
            return;
        }
        long offset = Long.parseLong(field(order, "offset"));
        String partition = field(order, "partition");
        if (offset < offsetOf(query.begins, partition) || offset >= offsetOf(query.ends, partition)) {
            return;
        }
        Files.move(armed, Paths.get(folder, new String[] {name + ".fired"}), new java.nio.file.CopyOption[0]);
        tell(query, "\"event\":\"failpoint\",\"name\":\"" + name + "\",\"record\":\"" + field(order, "record") + "\",\"hit\":1,\"action\":\""
            + field(order, "action") + "\",\"pid\":" + ManagementFactory.getRuntimeMXBean().getName().split("@")[0] + ",\"batch\":" + query.batch);
        java.nio.file.Path go = Paths.get(folder, new String[] {name + ".go"});
        while (!Files.exists(go, new java.nio.file.LinkOption[0])) {
            try {
                Thread.sleep(10);
            } catch (InterruptedException stopped) {
                return;
            }
        }
    }

    private static long offsetOf(String offsets, String partition) {
        Matcher found = END.matcher(offsets);
        while (found.find()) {
            if (found.group(1).equals(partition)) {
                return Long.parseLong(found.group(2));
            }
        }
        return 0;
    }

    private static String field(String json, String name) {
        Matcher found = FIELD.matcher(json);
        while (found.find()) {
            if (found.group(1).equals(name)) {
                return found.group(3) != null ? found.group(3) : found.group(2);
            }
        }
        throw new IllegalArgumentException("no " + name + " in " + json);
    }

    /** Append one line to the history, whole or not at all, as harness.model.history does. */
    private static void tell(Query query, String fields) throws IOException {
        String file = query.told("history");
        if (file.isEmpty()) {
            return;
        }
        long wall = System.currentTimeMillis() * 1000000L;
        String line = "{\"t\":" + System.nanoTime() + ",\"w\":" + wall + ",\"cell\":\"" + query.told("cell")
            + "\",\"by\":\"" + query.told("by") + "\"," + fields + "}\n";
        Files.write(Paths.get(file, new String[0]), line.getBytes(StandardCharsets.UTF_8),
            new java.nio.file.OpenOption[] {StandardOpenOption.CREATE, StandardOpenOption.APPEND, StandardOpenOption.WRITE});
    }
}
