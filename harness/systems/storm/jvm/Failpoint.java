package lostack;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.Map;
import net.minidev.json.JSONObject;
import net.minidev.json.JSONValue;

/** A place worth crashing, as harness.failpoint has them: armed by a file, claimed by renaming it, told in the history first. */
final class Failpoint {
    private Failpoint() {
    }

    /** Return whether the work at hand is to fail; where this thread is to be held, it never returns. */
    static boolean hit(Map<String, Object> conf, String name, String record) {
        Path file = Path.of((String) conf.get(Ledger.TOLD + "failpoints"), name + ".json");
        JSONObject told;
        try {
            told = (JSONObject) JSONValue.parse(Files.readString(file));
            if (!record.equals(told.get("record"))) {
                return false;
            }
            Files.move(file, file.resolveSibling(name + ".fired"), StandardCopyOption.ATOMIC_MOVE);
        } catch (NoSuchFileException none) {
            return false;
        } catch (IOException error) {
            throw new IllegalStateException("cannot pass the failpoint " + name + ": " + error, error);
        }
        try {
            String line = "{\"t\":" + System.nanoTime() + ",\"w\":" + System.currentTimeMillis() * 1000000L + ",\"cell\":\""
                + told.get("cell") + "\",\"by\":\"failpoint\",\"event\":\"failpoint\",\"name\":\"" + name + "\",\"record\":\""
                + record + "\",\"hit\":1,\"action\":\"" + told.get("action") + "\",\"pid\":" + ProcessHandle.current().pid() + "}\n";
            Path history = Path.of((String) told.get("history")).getFileName();  // a worker has another folder to begin with
            Files.write(Path.of((String) conf.get(Ledger.TOLD + "history")).resolve(history), line.getBytes(StandardCharsets.UTF_8),
                StandardOpenOption.CREATE, StandardOpenOption.APPEND, StandardOpenOption.WRITE);
            if (told.get("action").equals("fail")) {
                return true;
            }
            Thread.sleep(Long.MAX_VALUE);  // who has armed it kills this process
        } catch (IOException error) {
            throw new IllegalStateException("cannot tell of the failpoint " + name + ": " + error, error);
        } catch (InterruptedException ended) {
            Thread.currentThread().interrupt();
        }
        return false;
    }
}
