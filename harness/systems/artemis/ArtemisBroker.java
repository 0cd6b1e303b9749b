package lostack;

import java.io.File;
import java.io.IOException;
import java.io.PrintWriter;
import java.lang.reflect.Field;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import lostack.ControlPort.Line;
import org.apache.activemq.artemis.api.core.ActiveMQBuffer;
import org.apache.activemq.artemis.api.core.ActiveMQBuffers;
import org.apache.activemq.artemis.api.core.ActiveMQException;
import org.apache.activemq.artemis.api.core.ICoreMessage;
import org.apache.activemq.artemis.api.core.Message;
import org.apache.activemq.artemis.api.core.RoutingType;
import org.apache.activemq.artemis.api.core.SimpleString;
import org.apache.activemq.artemis.core.config.impl.ConfigurationImpl;
import org.apache.activemq.artemis.core.persistence.impl.journal.JournalRecordIds;
import org.apache.activemq.artemis.core.remoting.impl.AbstractAcceptor;
import org.apache.activemq.artemis.core.server.JournalType;
import org.apache.activemq.artemis.core.server.Queue;
import org.apache.activemq.artemis.core.server.ServerSession;
import org.apache.activemq.artemis.core.server.impl.ActiveMQServerImpl;
import org.apache.activemq.artemis.core.server.plugin.ActiveMQServerMessagePlugin;
import org.apache.activemq.artemis.core.settings.impl.AddressSettings;
import org.apache.activemq.artemis.core.transaction.Transaction;
import org.apache.activemq.artemis.spi.core.protocol.MessagePersister;
import org.apache.activemq.artemis.spi.core.remoting.Acceptor;

/** A broker of ActiveMQ Artemis. */
public final class ArtemisBroker implements Queues {
    private static final String ATTEMPT = "lostack-attempt";
    private static final String RETAINED = "retention";
    /** What the configuration says of itself where it does not know a setting, or not its value. */
    private static final String REFUSED = "\"errors\":[{";
    private static final String NAMED = "ID:";
    private static final String OPENWIRE = "OPENWIRE";
    private static final SimpleString OPENWIRE_NAME = SimpleString.of("__HDR_MESSAGE_ID");
    /** How long a distributed transaction may stay open that is not prepared: a client over OpenWire cannot say so itself. */
    private static final long UNPREPARED_MS = 10_000;

    private final File data;
    private final Set<String> refused = ConcurrentHashMap.newKeySet();
    private ActiveMQServerImpl server;

    private ArtemisBroker(File data) {
        this.data = data;
    }

    public static void main(String[] words) throws Exception {
        Queues.main(words, ArtemisBroker::new);
    }

    // -- the broker -------------------------------------------------------------------------------------------------------

    @Override
    public void start(List<String> acceptors) throws Exception {
        AddressSettings queues = new AddressSettings();
        queues.setDefaultAddressRoutingType(RoutingType.ANYCAST).setDefaultQueueRoutingType(RoutingType.ANYCAST);
        queues.setAutoDeleteQueues(false).setAutoDeleteAddresses(false);
        queues.setDeadLetterAddress(SimpleString.of("DLQ")).setAutoCreateDeadLetterResources(true);
        queues.setRedeliveryDelay(0);
        ConfigurationImpl settings = new ConfigurationImpl();
        settings.setTransactionTimeout(UNPREPARED_MS);
        settings.registerBrokerPlugin(new Refusing());
        settings.setName("lostack").setSecurityEnabled(false).setJMXManagementEnabled(false).setMaxDiskUsage(-1);
        settings.setJournalDirectory(folder("journal")).setBindingsDirectory(folder("bindings"));
        settings.setPagingDirectory(folder("paging")).setLargeMessagesDirectory(folder("large"));
        // what was stored is read in the journal: what goes from its files stays in those beside them, and none is rewritten
        settings.setJournalRetentionDirectory(folder(RETAINED));
        settings.setJournalCompactMinFiles(0);
        settings.setJournalType(JournalType.NIO).setJournalFileSize(1 << 20).setJournalMinFiles(2);
        settings.addAddressSetting("#", queues);
        Properties theirs = new Properties();
        theirs.putAll(Queues.settings());
        settings.parsePrefixedProperties(theirs, null);
        if (settings.getStatus().contains(REFUSED)) {
            throw new IllegalArgumentException("Artemis refuses a setting: " + settings.getStatus());
        }
        for (String acceptor : acceptors) {
            settings.addAcceptorConfiguration(acceptor, acceptor);
        }
        server = new ActiveMQServerImpl(settings);
        server.start();
        server.waitForActivation(1, TimeUnit.MINUTES);
        for (Acceptor acceptor : server.getRemotingService().getAcceptors().values()) {
            Object openWire = ((AbstractAcceptor) acceptor).getProtocolMap().get(OPENWIRE);
            if (openWire != null) {
                loosen(openWire);
                acceptor.start();
            }
        }
    }

    /** Let OpenWire decline tight encoding, which the wire cannot read. Artemis has no setting for that. */
    private static void loosen(Object manager) throws ReflectiveOperationException {
        Field field = manager.getClass().getDeclaredField("wireFactory");
        field.setAccessible(true);
        Object formats = field.get(manager);
        formats.getClass().getMethod("setTightEncodingEnabled", boolean.class).invoke(formats, false);
    }

    private String folder(String name) {
        return new File(data, name).getAbsolutePath();
    }

    @Override
    public String version() {
        return server.getVersion().getFullVersion();
    }

    @Override
    public void refuse(String queue) {
        refused.add(queue);
    }

    @Override
    public Line count(String name) {
        Queue queue = server.locateQueue(SimpleString.of(name));
        long scheduled = queue == null ? 0 : queue.getScheduledCount();
        long given = queue == null ? 0 : queue.getDeliveringCount();
        return new Line()
                .with("messages", queue == null ? 0L : queue.getMessageCount() - scheduled)
                .with("in_flight", given)
                .with("scheduled", scheduled)
                .with("consumers", queue == null ? 0 : queue.getConsumerCount());
    }

    // -- its journal ------------------------------------------------------------------------------------------------------

    /** Tell of each reference to a message, its removal, and every transaction's end. */
    @Override
    public void journal(Collection<String> names, PrintWriter out) throws IOException {
        Map<Long, String> queues = new HashMap<>();
        for (JournalFile file : JournalFile.all("bindings", new File(data, "bindings"))) {
            for (JournalFile.Entry entry : file.entries()) {
                if (entry.type == JournalRecordIds.QUEUE_BINDING_RECORD && !entry.deletes()) {
                    String name = entry.buffer().readSimpleString().toString();
                    if (names.contains(name)) {
                        queues.put(entry.record, name);
                    }
                }
            }
        }
        Map<Long, Message> messages = new HashMap<>();
        for (JournalFile file : JournalFile.all("amq", new File(data, RETAINED), new File(data, "journal"))) {
            for (JournalFile.Entry entry : file.entries()) {
                tell(entry, queues, messages, out);
            }
        }
    }

    private static void tell(JournalFile.Entry entry, Map<Long, String> queues, Map<Long, Message> messages, PrintWriter out)
            throws IOException {
        Line line = new Line().with("id", entry.record).with("tx", entry.transaction < 0 ? null : String.valueOf(entry.transaction));
        switch (entry.kind) {
            case JournalFile.PREPARE -> out.println(line.with("kind", "prepare"));
            case JournalFile.COMMIT -> out.println(line.with("kind", "commit"));
            case JournalFile.ROLLBACK -> out.println(line.with("kind", "rollback"));
            case JournalFile.DELETE, JournalFile.DELETE_TX -> {
                if (messages.remove(entry.record) != null) {
                    out.println(line.with("kind", "delete"));
                }
            }
            default -> tellOfMessage(entry, line, queues, messages, out);
        }
    }

    private static void tellOfMessage(JournalFile.Entry entry, Line line, Map<Long, String> queues, Map<Long, Message> messages,
            PrintWriter out) throws IOException {
        if (entry.type == JournalRecordIds.ADD_MESSAGE_PROTOCOL) {
            messages.put(entry.record, MessagePersister.getInstance().decode(entry.buffer(), null, null));
            return;
        }
        if (entry.type != JournalRecordIds.ADD_REF && entry.type != JournalRecordIds.ACKNOWLEDGE_REF) {
            return;
        }
        String queue = queues.get(entry.buffer().readLong());
        if (queue == null) {
            return;
        }
        line.with("queue", queue);
        if (entry.type == JournalRecordIds.ACKNOWLEDGE_REF) {
            out.println(line.with("kind", "remove"));
            return;
        }
        Message message = messages.get(entry.record);
        if (message == null) {
            throw new IOException("the journal has no message " + entry.record + ", and " + queue + " has it");
        }
        Object attempt = message.getObjectProperty(SimpleString.of(ATTEMPT));
        if (attempt == null) { // as a property is called whose name must be one of Java's
            attempt = message.getObjectProperty(SimpleString.of(ATTEMPT.replace('-', '_')));
        }
        Object called = message.getObjectProperty(OPENWIRE_NAME); // what comes by OpenWire has two, and this is its client's
        called = called == null ? message.getUserID() : called;
        Object origin = message.getObjectProperty(Message.HDR_ORIG_MESSAGE_ID);
        out.println(line.with("kind", "add").with("origin", origin == null ? null : origin.toString())
                .with("name", called == null ? null : NAMED + called.toString().replaceFirst("^" + NAMED, ""))
                .with("attempt", attempt == null ? null : attempt.toString()).with("body", body(message)));
    }

    /** It refuses as a plugin may: by an exception, before the broker does anything about the message. */
    private final class Refusing implements ActiveMQServerMessagePlugin {
        @Override
        public void beforeSend(ServerSession session, Transaction tx, Message message, boolean direct, boolean noAutoCreateQueue)
                throws ActiveMQException {
            if (refused.remove(message.getAddress())) {
                throw new ActiveMQException("refused, as was asked");
            }
        }
    }

    private static String body(Message message) {
        ICoreMessage core = message.toCore();
        ActiveMQBuffer buffer = core.getReadOnlyBodyBuffer();
        if (core.getType() == Message.TEXT_TYPE) {
            SimpleString text = buffer.readNullableSimpleString();
            return Base64.getEncoder().encodeToString(String.valueOf(text).getBytes(StandardCharsets.UTF_8));
        }
        byte[] bytes = new byte[buffer.readableBytes()];
        buffer.readBytes(bytes);
        return Base64.getEncoder().encodeToString(bytes);
    }
}

/** One file of a journal of Artemis, in the form of its version 2. */
final class JournalFile {
    static final byte DELETE_TX = 15;
    static final byte DELETE = 16;
    static final byte PREPARE = 17;
    static final byte COMMIT = 18;
    static final byte ROLLBACK = 19;
    private static final byte EVENT = 10;
    private static final byte ADD_TX = 13;
    private static final byte UPDATE_TX = 14;
    private static final int VERSION = 2;
    private static final int HEAD = 16;
    private static final int FILLING = 0x4a4a4a4a;
    private static final int TRIES = 20;

    private final File file;
    private final ByteBuffer bytes;
    private final int number;

    private JournalFile(File file, byte[] bytes) throws IOException {
        this.file = file;
        this.bytes = ByteBuffer.wrap(bytes);
        if (this.bytes.getInt(0) != VERSION) {
            throw new IOException(file + " is of a version that is not read here: " + this.bytes.getInt(0));
        }
        number = (int) this.bytes.getLong(8); // which a file has anew each time that it is used again
    }

    /** Return the files of a kind in the order in which they were written; of one that was copied, that in the last folder. */
    static Collection<JournalFile> all(String ending, File... folders) throws IOException {
        for (int left = TRIES; ; left--) {
            try {
                TreeMap<Integer, JournalFile> found = new TreeMap<>();
                for (File folder : folders) {
                    File[] files = folder.listFiles((in, name) -> name.endsWith("." + ending) || name.endsWith("." + ending + ".bkp"));
                    for (File each : files == null ? new File[0] : files) {
                        byte[] bytes = whole(each);
                        if (bytes.length >= HEAD && !isBeingMade(bytes)) {
                            JournalFile file = new JournalFile(each, bytes);
                            found.put(file.number, file);
                        }
                    }
                }
                return found.values();
            } catch (NoSuchFileException moved) {
                if (left == 0) {
                    throw moved;
                }
            }
        }
    }

    private static boolean isBeingMade(byte[] bytes) {
        int first = ByteBuffer.wrap(bytes).getInt(0);
        return first == 0 || first == FILLING;
    }

    /** Read a file, again while what is read of it has an end, and something behind it: it is being written. */
    private static byte[] whole(File file) throws IOException {
        int before = -1;
        while (true) {
            byte[] bytes = Files.readAllBytes(file.toPath());
            if (bytes.length < HEAD || ByteBuffer.wrap(bytes).getInt(0) != VERSION) {
                return bytes;
            }
            JournalFile read = new JournalFile(file, bytes);
            int end = read.end();
            int behind = end;
            while (behind < bytes.length && read.size(behind) == 0) {
                behind++;
            }
            if (behind == bytes.length) {
                return bytes;
            }
            if (end == before) {
                throw new IOException(file + " is damaged at " + end + ": there are entries behind");
            }
            before = end;
        }
    }

    /** Return its whole entries, in order. */
    List<Entry> entries() {
        List<Entry> found = new java.util.ArrayList<>();
        int at = HEAD;
        for (int size = size(at); size > 0; size = size(at)) {
            found.add(new Entry(at, size));
            at += size;
        }
        return found;
    }

    private int end() {
        int at = HEAD;
        for (int size = size(at); size > 0; size = size(at)) {
            at += size;
        }
        return at;
    }

    /** Return the size of the entry at a place; 0 where there is none that is whole, and of this use of the file. */
    private int size(int at) {
        int least = 10;
        if (bytes.limit() - at < least) {
            return 0;
        }
        byte kind = bytes.get(at);
        if (kind < EVENT || kind > ROLLBACK || bytes.getInt(at + 1) != number) {
            return 0;
        }
        long size = 6 + 4 + (inTransaction(kind) ? 8 : 0) + (ends(kind) ? 0 : 8);
        int lengthAt = at + (int) size - 4;
        if (hasBody(kind)) {
            size += kind == DELETE_TX ? 4 : 5;
            if (bytes.limit() - at < size) {
                return 0;
            }
            size += bytes.getInt(lengthAt);
        } else if (kind == PREPARE || kind == COMMIT) {
            size += kind == PREPARE ? 8 : 4;
            if (bytes.limit() - at < size) {
                return 0;
            }
            size += kind == PREPARE ? bytes.getInt(lengthAt + 4) : 0;
        }
        boolean whole = size >= least && bytes.limit() - at >= size && bytes.getInt(at + (int) size - 4) == size;
        return whole ? (int) size : 0;
    }

    private static boolean inTransaction(byte kind) {
        return kind == ADD_TX || kind == UPDATE_TX || kind == DELETE_TX || ends(kind);
    }

    private static boolean ends(byte kind) {
        return kind >= PREPARE;
    }

    private static boolean hasBody(byte kind) {
        return kind <= DELETE_TX;
    }

    @Override
    public String toString() {
        return file.toString();
    }

    /** One entry. */
    final class Entry {
        final byte kind;
        final long transaction;
        /** Of a message, its number. */
        final long record;
        /** What it is about, of those that have content. */
        final byte type;
        private final int begin;
        private final int length;

        private Entry(int at, int size) {
            kind = bytes.get(at);
            int next = at + 6;
            transaction = inTransaction(kind) ? bytes.getLong(next) : -1;
            next += inTransaction(kind) ? 8 : 0;
            record = ends(kind) ? -1 : bytes.getLong(next);
            next += ends(kind) ? 0 : 8;
            type = hasBody(kind) && kind != DELETE_TX ? bytes.get(next + 4) : -1;
            begin = next + 5;
            length = type < 0 ? 0 : at + size - 4 - begin;
        }

        boolean deletes() {
            return kind == DELETE || kind == DELETE_TX;
        }

        ActiveMQBuffer buffer() {
            return ActiveMQBuffers.wrappedBuffer(Arrays.copyOfRange(bytes.array(), begin, begin + length));
        }
    }
}
