import java.io.FileOutputStream;
import java.nio.charset.StandardCharsets;
import javax.jms.Connection;
import javax.jms.ConnectionFactory;
import javax.jms.MessageConsumer;
import javax.jms.Session;
import javax.jms.TextMessage;

/**
 * Writes each order of a queue to a file on disk, then acknowledges it; with the word "auto" the library acknowledges
 * it before that. Knows nothing of lostack.
 */
public final class OrderConsumer {
    public static void main(String[] words) throws Exception {
        boolean auto = words.length > 1 && words[1].equals("auto");
        ConnectionFactory factory = (ConnectionFactory)
                Class.forName(System.getenv("FACTORY")).getConstructor(String.class).newInstance(System.getenv("BROKER"));
        Connection connection = factory.createConnection();
        connection.setExceptionListener(error -> Runtime.getRuntime().halt(1));
        Session session = connection.createSession(false, auto ? Session.AUTO_ACKNOWLEDGE : Session.CLIENT_ACKNOWLEDGE);
        MessageConsumer consumer = session.createConsumer(session.createQueue("orders"));
        connection.start();
        try (FileOutputStream file = new FileOutputStream(words[0], true)) {
            while (true) {
                TextMessage message = (TextMessage) consumer.receive();
                file.write((message.getText() + "\n").getBytes(StandardCharsets.UTF_8));
                file.getFD().sync();
                if (!auto) {
                    message.acknowledge();
                }
            }
        }
    }
}
