package lostack;

import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ExecutionException;

/**
 * Calls of one stage program over standard input and output, and the things that they have made, by their numbers.
 *
 * <p>A call is a line of words between tabs; bytes are Base64, "-" is null. The answer is {@code ok} with its words, or
 * {@code error}, the exception's name and what it said. One call at a time, in one thread: between two calls nothing happens here
 * but what a client does by itself. When the caller is gone, this is gone, without a goodbye to any broker.
 */
abstract class Calls {
    final Map<String, Object> things = new HashMap<>();
    private int last = 0;

    /** Do what a call says, and return the words of its answer, each behind a tab. */
    abstract String call(String[] words) throws Exception;

    final void serve() throws IOException {
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.US_ASCII);
        System.setOut(System.err); // whatever a library prints is no answer
        BufferedReader in = new BufferedReader(
                new InputStreamReader(new FileInputStream(FileDescriptor.in), StandardCharsets.US_ASCII));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.print(answer(line.split("\t", -1)) + "\n");
            out.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private String answer(String[] words) {
        try {
            return "ok" + call(words);
        } catch (Throwable raised) {
            Throwable error = raised;
            while ((error instanceof ExecutionException || error instanceof InvocationTargetException)
                    && error.getCause() != null) {
                error = error.getCause();
            }
            return "error\t" + error.getClass().getSimpleName() + "\t"
                    + coded(String.valueOf(error.getMessage()).getBytes(StandardCharsets.UTF_8));
        }
    }

    final String added(Object thing) {
        things.put(String.valueOf(++last), thing);
        return "\t" + last;
    }

    static String coded(byte[] bytes) {
        return bytes == null ? "-" : Base64.getEncoder().encodeToString(bytes);
    }

    static byte[] decoded(String word) {
        return word.equals("-") ? null : Base64.getDecoder().decode(word);
    }
}
