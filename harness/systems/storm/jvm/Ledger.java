package lostack;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Map;

/** Appends lines to the history, each whole or not at all, as harness.model.history does: one file for each worker. */
final class Ledger {
    /** What begins the names of our own settings. */
    static final String TOLD = "lostack.";
    private static Ledger mine;
    final String writer;
    private final Path file;
    private final String cell;

    private Ledger(Path file, String writer, String cell) {
        this.file = file;
        this.writer = writer;
        this.cell = cell;
    }

    /** That of this worker, which says {@code name} of itself, and a number: the first that none of that name has had. */
    static synchronized Ledger of(Map<String, Object> conf, String name) {
        for (int number = 1; mine == null; number++) {
            String writer = name + "-" + number;
            Path file = Path.of((String) conf.get(TOLD + "history"), writer + ".jsonl");
            try {
                Files.createFile(file);
                mine = new Ledger(file, writer, (String) conf.get(TOLD + "cell"));
            } catch (FileAlreadyExistsException taken) {
                continue;
            } catch (IOException error) {
                throw new IllegalStateException("cannot write the history: " + error, error);
            }
        }
        return mine;
    }

    /** Say that this worker does its work. */
    void ready() {
        tell("\"event\":\"ready\",\"role\":\"processor\",\"pid\":" + ProcessHandle.current().pid() + ",\"worker\":\""
            + System.getProperty("worker.id") + "\"");
    }

    /** Say which copy was given. */
    void delivered(String record, int partition, int epoch, long offset) {
        tell("\"event\":\"delivered\",\"record\":\"" + record + "\",\"partition\":" + partition + ",\"epoch\":" + epoch
            + ",\"offset\":" + offset);
    }

    /** Say where a partition is gone on with. */
    void resumed(String group, int partition, long offset) {
        tell("\"event\":\"resumed\",\"where\":\"" + group + "\",\"partition\":" + partition + ",\"position\":" + offset);
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
