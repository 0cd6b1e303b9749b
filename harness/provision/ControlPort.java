package lostack;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * A server's port for questions: a line of words each, quoted as in a URL, answered with lines of JSON and an empty line.
 *
 * <p>Every user of the machine can connect. So a connection begins with a line with the secret, which the server finds in its
 * environment; whoever says something else is not answered.
 */
final class ControlPort {
    /** Who answers. */
    interface Answering {
        void reply(List<String> words, PrintWriter out) throws Exception;
    }

    private static final String VARIABLE = "LOSTACK_CONTROL_SECRET";
    private static final int GREETED_WITHIN_MS = 10000;

    private ControlPort() {
    }

    /** Answer whoever asks, for ever. {@code at}: HOST:PORT. */
    static void answer(String at, Answering answering) throws IOException {
        int colon = at.lastIndexOf(':');
        InetAddress host = InetAddress.getByName(at.substring(0, colon));
        String secret = System.getenv(VARIABLE);
        if (secret == null || secret.isEmpty()) {
            throw new IOException("the variable " + VARIABLE + " must hold the secret of the control port");
        }
        byte[] greeting = (secret + "\n").getBytes(StandardCharsets.UTF_8);
        try (ServerSocket server = new ServerSocket(Integer.parseInt(at.substring(colon + 1)), 50, host)) {
            while (true) {
                Socket client = server.accept();
                Thread thread = new Thread(() -> converse(client, greeting, answering), "control");
                thread.setDaemon(true);
                thread.start();
            }
        }
    }

    /** Say whether a connection begins with the secret, and at once. */
    private static boolean letIn(Socket client, byte[] greeting) throws IOException {
        client.setSoTimeout(GREETED_WITHIN_MS);
        byte[] said = client.getInputStream().readNBytes(greeting.length);
        client.setSoTimeout(0);
        return MessageDigest.isEqual(said, greeting);
    }

    private static void converse(Socket client, byte[] greeting, Answering answering) {
        try (client) {
            if (letIn(client, greeting)) {
                talk(client, answering);
            }
        } catch (IOException gone) {
            // who asked has left, or said nothing for too long
        }
    }

    private static void talk(Socket client, Answering answering) throws IOException {
        try (BufferedReader in = new BufferedReader(new InputStreamReader(client.getInputStream(), StandardCharsets.UTF_8));
                PrintWriter out = new PrintWriter(client.getOutputStream(), false, StandardCharsets.UTF_8)) {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                try {
                    answering.reply(Arrays.stream(line.split(" ")).map(ControlPort::plain).toList(), out);
                } catch (Exception error) {
                    out.println(new Line().with("error", String.valueOf(error)));
                }
                out.println();
                out.flush();
            }
        }
    }

    private static String plain(String word) {
        return URLDecoder.decode(word, StandardCharsets.UTF_8);
    }

    /** One object of JSON. */
    static final class Line {
        private final Map<String, Object> fields = new LinkedHashMap<>();

        Line with(String name, Object value) {
            fields.put(name, value);
            return this;
        }

        @Override
        public String toString() {
            StringBuilder text = new StringBuilder("{");
            fields.forEach((name, value) -> text.append(text.length() > 1 ? ", " : "").append(quoted(name)).append(": ")
                    .append(value == null || value instanceof Number ? String.valueOf(value) : quoted(value.toString())));
            return text.append("}").toString();
        }

        private static String quoted(String word) {
            StringBuilder text = new StringBuilder("\"");
            for (char each : word.toCharArray()) {
                text.append(each == '"' || each == '\\' || each < ' ' ? String.format("\\u%04x", (int) each) : String.valueOf(each));
            }
            return text.append('"').toString();
        }
    }
}
