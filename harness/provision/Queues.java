package lostack;

import java.io.File;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Function;
import lostack.ControlPort.Line;

/**
 * A broker of queues, and what its own files say.
 *
 * <p>{@code broker DATA CONTROL CONNECTOR...} runs one, CONTROL (HOST:PORT) and each connector an address; {@code journal DATA
 * QUEUE...} prints what the journal in DATA has of queues. A broker answers the same, and how much it counts, on its control
 * port ({@code hello}, {@code count QUEUE}, {@code journal QUEUE...}), and can be told to {@code refuse QUEUE}. One with a journal
 * of files can be told to {@code keep} a message, to {@code rotate} and to {@code clean} it.
 */
interface Queues {
    /** The beginning of the names of properties that are settings of a user. */
    String SETTING = "lostack.setting.";

    /** Return the settings of a user, by the names that the broker has for them. */
    static Map<String, String> settings() {
        Map<String, String> found = new TreeMap<>();
        for (String name : System.getProperties().stringPropertyNames()) {
            if (name.startsWith(SETTING)) {
                found.put(name.substring(SETTING.length()), System.getProperty(name));
            }
        }
        return found;
    }

    /** Start it; it is up when this returns. */
    void start(List<String> connectors) throws Exception;

    String version();

    /** Tell how many messages it counts in a queue: {@code messages}, and {@code in_flight} of them. */
    Line count(String queue) throws Exception;

    /** Tell what became of the messages of queues. Files are opened to be read, and nothing else. */
    void journal(Collection<String> queues, PrintWriter out) throws IOException;

    /** Refuse the next message that is sent to a queue. */
    default void refuse(String queue) throws Exception {
        throw new UnsupportedOperationException("this broker refuses nothing");
    }

    /** Store a message in a queue that nobody reads. */
    default void keep() throws Exception {
        throw new UnsupportedOperationException("this broker keeps no message for nobody");
    }

    /** Go on in another file of the journal; return the number of the one that has ended. */
    default int rotate() throws Exception {
        throw new UnsupportedOperationException("this broker has no files to go on in");
    }

    /** Clean the journal up, once, as it is done every now and then; return the numbers of the files that are left. */
    default Collection<Integer> clean() throws Exception {
        throw new UnsupportedOperationException("this broker does not clean up when it is told to");
    }

    /** Do what the words of a command line say, with a broker whose files are in a folder. */
    static void main(String[] words, Function<File, Queues> in) throws Exception {
        Queues queues = in.apply(new File(words[1]));
        List<String> rest = Arrays.asList(words).subList(2, words.length);
        if (words[0].equals("journal")) {
            PrintWriter out = new PrintWriter(System.out, false, StandardCharsets.UTF_8);
            queues.journal(rest, out);
            out.flush();
            return;
        }
        queues.start(rest.subList(1, rest.size()));
        ControlPort.answer(rest.get(0), (asked, out) -> {
            List<String> names = asked.subList(1, asked.size());
            switch (asked.get(0)) {
                case "hello" -> out.println(new Line().with("version", queues.version()));
                case "count" -> out.println(queues.count(names.get(0)));
                case "refuse" -> queues.refuse(names.get(0));
                case "journal" -> queues.journal(names, out);
                case "keep" -> queues.keep();
                case "rotate" -> out.println(new Line().with("file", (long) queues.rotate()));
                case "clean" -> {
                    for (int file : queues.clean()) {
                        out.println(new Line().with("file", (long) file));
                    }
                }
                default -> throw new IllegalArgumentException(asked.get(0));
            }
        });
    }
}
