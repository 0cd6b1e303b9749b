package lostack;

import java.nio.charset.StandardCharsets;
import javax.jms.BytesMessage;
import javax.jms.CompletionListener;
import javax.jms.Connection;
import javax.jms.ConnectionFactory;
import javax.jms.DeliveryMode;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.XAConnection;
import javax.jms.XAConnectionFactory;
import javax.jms.XASession;
import javax.transaction.xa.XAException;
import javax.transaction.xa.XAResource;
import javax.transaction.xa.Xid;

/**
 * A JMS client of one stage program. Which client it is says the class of its connection factory, whose one argument is an address.
 */
public final class JmsBridge extends Calls {
    /** To whom the broker's answer to a message goes that nobody waits for. */
    private static final CompletionListener UNHEARD = new CompletionListener() {
        @Override
        public void onCompletion(Message message) {}

        @Override
        public void onException(Message message, Exception error) {}
    };

    private JmsBridge() {}

    public static void main(String[] words) throws Exception {
        new JmsBridge().serve();
    }

    @Override
    String call(String[] words) throws Exception {
        switch (words[0]) {
            case "open":
                return added(new Opened(words[1], words[2], words[3]));
            case "session":
                return added(opened(words[1]).session(Integer.parseInt(words[2])));
            case "producer":
                return added(opened(words[1]).producer(words[2], words[3]));
            case "consumer":
                return added(opened(words[1]).consumer(words[2], words[3]));
            case "send":
            case "send-unheard":
                return send(words);
            case "receive":
                return receive(opened(words[1]), (MessageConsumer) things.get(words[2]), Long.parseLong(words[3]));
            case "acknowledge":
                ((Message) things.remove(words[1])).acknowledge();
                return "";
            case "close-consumer":
                ((MessageConsumer) things.remove(words[1])).close();
                return "";
            case "commit":
                ((Session) things.get(words[1])).commit();
                return "";
            case "rollback":
                ((Session) things.get(words[1])).rollback();
                return "";
            case "recover":
                ((Session) things.get(words[1])).recover();
                return "";
            case "xa-session":
                return added(opened(words[1]).distributed());
            case "xa-start":
                resource(words).start(new Name(words[2]), XAResource.TMNOFLAGS);
                return "";
            case "xa-prepare":
                resource(words).end(new Name(words[2]), XAResource.TMSUCCESS);
                resource(words).prepare(new Name(words[2]));
                return "";
            case "xa-commit":
                resource(words).commit(new Name(words[2]), false);
                return "";
            case "xa-rollback":
                resource(words).rollback(new Name(words[2]));
                return "";
            case "xa-recover":
                return recovered(resource(words));
            case "close":
                opened(words[1]).connection.close();
                return "";
            case "leave":
                opened(words[1]).leave();
                return "";
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private XAResource resource(String[] words) {
        return ((XASession) things.get(words[1])).getXAResource();
    }

    /** Return the names of the transactions that are prepared and not ended, whoever has prepared them. */
    private static String recovered(XAResource resource) throws XAException {
        StringBuilder names = new StringBuilder();
        for (Xid each : resource.recover(XAResource.TMSTARTRSCAN | XAResource.TMENDRSCAN)) {
            names.append('\t').append(new String(each.getGlobalTransactionId(), StandardCharsets.US_ASCII));
        }
        return names.toString();
    }

    private Opened opened(String number) {
        return (Opened) things.get(number);
    }

    private String send(String[] words) throws JMSException {
        BytesMessage message = opened(words[1]).message();
        message.writeBytes(decoded(words[3]));
        for (int i = 4; i < words.length; i += 2) {
            message.setStringProperty(words[i], new String(decoded(words[i + 1]), StandardCharsets.UTF_8));
        }
        MessageProducer producer = (MessageProducer) things.get(words[2]);
        if (words[0].equals("send")) {
            producer.send(message);
        } else {
            producer.send(message, UNHEARD);
        }
        return "\t" + message.getJMSMessageID();
    }

    /** Wait for a message; of one, how it is acknowledged, its name, whether it was given before, how often, and its bytes. */
    private String receive(Opened from, MessageConsumer consumer, long withinMs) throws JMSException {
        Message message = consumer.receive(withinMs);
        if (message == null) {
            from.check();
            return "";
        }
        byte[] value = new byte[0];
        if (message instanceof BytesMessage bytes) {
            value = new byte[(int) bytes.getBodyLength()];
            bytes.readBytes(value);
        }
        int times = message.propertyExists("JMSXDeliveryCount") ? message.getIntProperty("JMSXDeliveryCount") : -1;
        return added(message) + "\t" + message.getJMSMessageID() + "\t" + message.getJMSRedelivered() + "\t" + times
                + "\t" + coded(value);
    }

    /** The name of a distributed transaction: a text, and one branch. */
    private record Name(String text) implements Xid {
        @Override
        public int getFormatId() {
            return 0x6c6f;
        }

        @Override
        public byte[] getGlobalTransactionId() {
            return text.getBytes(StandardCharsets.US_ASCII);
        }

        @Override
        public byte[] getBranchQualifier() {
            return new byte[] {1};
        }
    }

    /** A connection over its one life, and what it is used by. */
    private final class Opened {
        private final Connection connection;
        private Session of;
        private volatile JMSException lost;

        Opened(String factory, String address, String client) throws Exception {
            Object made = Class.forName(factory).getConstructor(String.class).newInstance(address);
            connection = made instanceof XAConnectionFactory distributed
                    ? distributed.createXAConnection()
                    : ((ConnectionFactory) made).createConnection();
            try {
                connection.setExceptionListener(error -> lost = error);
                connection.setClientID(client);
                connection.start();
            } catch (JMSException error) {
                leave();
                throw error;
            }
        }

        XASession distributed() throws JMSException {
            return ((XAConnection) connection).createXASession();
        }

        Session session(int mode) throws JMSException {
            return connection.createSession(mode == Session.SESSION_TRANSACTED, mode);
        }

        MessageProducer producer(String session, String queue) throws JMSException {
            of = (Session) things.get(session);
            MessageProducer producer = of.createProducer(of.createQueue(queue));
            producer.setDeliveryMode(DeliveryMode.PERSISTENT);
            return producer;
        }

        MessageConsumer consumer(String session, String queue) throws JMSException {
            Session in = (Session) things.get(session);
            Queue from = in.createQueue(queue);
            return in.createConsumer(from);
        }

        BytesMessage message() throws JMSException {
            return of.createBytesMessage();
        }

        /** Raise what has ended it, where it has. */
        void check() throws JMSException {
            if (lost != null) {
                throw new JMSException("the connection is lost: " + lost.getMessage());
            }
        }

        /** End it, and wait for nobody. */
        void leave() {
            Thread thread = new Thread(() -> {
                try {
                    connection.close();
                } catch (JMSException gone) {
                    // there is nobody left to say goodbye to
                }
            }, "leave");
            thread.setDaemon(true);
            thread.start();
        }
    }
}
