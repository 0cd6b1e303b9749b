import java.io.BufferedReader;
import java.io.InputStreamReader;
import javax.jms.Connection;
import javax.jms.ConnectionFactory;
import javax.jms.MessageProducer;
import javax.jms.Session;

/** Sends each line of standard input to a queue, by any library of JMS. Knows nothing of lostack. */
public final class OrderProducer {
    public static void main(String[] words) throws Exception {
        ConnectionFactory factory = (ConnectionFactory)
                Class.forName(System.getenv("FACTORY")).getConstructor(String.class).newInstance(System.getenv("BROKER"));
        Connection connection = factory.createConnection();
        connection.start();
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        MessageProducer producer = session.createProducer(session.createQueue("orders"));
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            producer.send(session.createTextMessage(line));
        }
        connection.close();
    }
}
