package lostack;

import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.io.File;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collection;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.zip.Adler32;
import lostack.ControlPort.Line;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.apache.activemq.ActiveMQConnectionMetaData;
import org.apache.activemq.broker.BrokerService;
import org.apache.activemq.broker.region.Destination;
import org.apache.activemq.broker.region.policy.IndividualDeadLetterStrategy;
import org.apache.activemq.broker.region.policy.PolicyEntry;
import org.apache.activemq.broker.region.policy.PolicyMap;
import org.apache.activemq.command.ActiveMQQueue;
import org.apache.activemq.command.Message;
import org.apache.activemq.command.MessageAck;
import org.apache.activemq.openwire.OpenWireFormat;
import org.apache.activemq.protobuf.Buffer;
import org.apache.activemq.store.kahadb.JournalCommand;
import org.apache.activemq.store.kahadb.KahaDBPersistenceAdapter;
import org.apache.activemq.store.kahadb.data.KahaAddMessageCommand;
import org.apache.activemq.store.kahadb.data.KahaCommitCommand;
import org.apache.activemq.store.kahadb.data.KahaDestination;
import org.apache.activemq.store.kahadb.data.KahaEntryType;
import org.apache.activemq.store.kahadb.data.KahaPrepareCommand;
import org.apache.activemq.store.kahadb.data.KahaRemoveDestinationCommand;
import org.apache.activemq.store.kahadb.data.KahaRemoveMessageCommand;
import org.apache.activemq.store.kahadb.data.KahaRollbackCommand;
import org.apache.activemq.store.kahadb.data.KahaTransactionInfo;
import org.apache.activemq.store.kahadb.disk.journal.Journal;
import org.apache.activemq.util.ByteSequence;
import org.apache.activemq.util.DataByteArrayInputStream;
import org.apache.activemq.util.IntrospectionSupport;

/** A broker of ActiveMQ Classic. */
public final class ClassicBroker implements Queues {
    private static final int HEAD = 5;
    private static final byte USER_RECORD = 1;
    private static final byte BATCH_RECORD = 2;
    private static final String MAGIC = "WRITE BATCH";
    private static final int BATCH_HEAD = HEAD + MAGIC.length() + 4 + 8;
    private static final long NEVER_MS = 7L * 24 * 3600 * 1000;
    private static final String NAME = "lostack";
    private static final String KEPT = "lostack.kept";
    private static final int AUTO_ACKNOWLEDGE = 1;
    /** The beginning of the names of settings that queues have, not the broker. */
    private static final String POLICY = "policy.";
    /** Of those that its store has. */
    private static final String STORE = "kahadb.";
    /** A message that came by AMQP is kept as it came. */
    private static final String NATIVE = "JMS_AMQP_NATIVE";
    private static final String ATTEMPT = "lostack-attempt";

    private final File data;
    /** What is cleaned up is put there. */
    private final File archive;
    private BrokerService service;

    private ClassicBroker(File data) {
        this.data = data;
        this.archive = new File(data, "archive").getAbsoluteFile();
    }

    public static void main(String[] words) throws Exception {
        Queues.main(words, ClassicBroker::new);
    }

    // -- the broker -------------------------------------------------------------------------------------------------------

    @Override
    public void start(List<String> connectors) throws Exception {
        KahaDBPersistenceAdapter store = new KahaDBPersistenceAdapter();
        store.setDirectory(data);
        // what was stored is read in the journal: nothing of it may go, and nothing may be dispatched that is not there
        store.setCleanupInterval(NEVER_MS);
        store.setArchiveDataLogs(true);
        store.setDirectoryArchive(archive);
        store.setJournalMaxFileLength(4 << 20);
        store.setConcurrentStoreAndDispatchQueues(false);
        PolicyEntry policy = new PolicyEntry();
        policy.setQueue(">");
        IndividualDeadLetterStrategy aside = new IndividualDeadLetterStrategy();
        aside.setQueuePrefix("DLQ.");
        policy.setDeadLetterStrategy(aside);
        PolicyMap policies = new PolicyMap();
        policies.setDefaultEntry(policy);
        service = new BrokerService();
        service.setBrokerName(NAME);
        service.setDataDirectoryFile(new File(data, "broker"));
        service.setUseJmx(false);
        service.setUseShutdownHook(false);
        service.setAdvisorySupport(false);
        service.setPersistenceAdapter(store);
        service.setDestinationPolicy(policies);
        service.getSystemUsage().getStoreUsage().setLimit(1L << 30);
        service.getSystemUsage().getTempUsage().setLimit(1L << 26);
        service.getSystemUsage().getMemoryUsage().setLimit(1L << 26);
        for (Map.Entry<String, String> each : Queues.settings().entrySet()) {
            String name = each.getKey();
            Object of = name.startsWith(POLICY) ? policy : name.startsWith(STORE) ? store : service;
            String bare = of == service ? name : name.substring(name.indexOf('.') + 1);
            if (!IntrospectionSupport.setProperty(of, bare, each.getValue())) {
                throw new IllegalArgumentException("ActiveMQ has no setting " + name);
            }
        }
        for (String connector : connectors) {
            service.addConnector(connector);
        }
        service.start();
        service.waitUntilStarted();
    }

    @Override
    public String version() {
        return ActiveMQConnectionMetaData.PROVIDER_VERSION;
    }

    @Override
    public Line count(String queue) throws Exception {
        Destination there = service.getBroker().getDestinationMap().get(new ActiveMQQueue(queue));
        if (there == null) {
            return new Line().with("messages", 0L).with("in_flight", 0L).with("consumers", 0L);
        }
        return new Line()
                .with("messages", there.getDestinationStatistics().getMessages().getCount())
                .with("in_flight", there.getDestinationStatistics().getInflight().getCount())
                .with("consumers", there.getDestinationStatistics().getConsumers().getCount());
    }

    // -- what it is told to do ----------------------------------------------------------------------------------------------

    @Override
    public void keep() throws Exception {
        // its types are of javax or of jakarta, as the broker's version has it
        var connection = new ActiveMQConnectionFactory("vm://" + NAME + "?create=false").createConnection();
        try {
            var session = connection.createSession(false, AUTO_ACKNOWLEDGE);
            session.createProducer(new ActiveMQQueue(KEPT)).send(session.createTextMessage(KEPT));
        } finally {
            connection.close();
        }
    }

    @Override
    public int rotate() throws Exception {
        Journal journal = store().getStore().getJournal();
        int ended = journal.getCurrentDataFileId();
        journal.rotateWriteFile();
        return ended;
    }

    @Override
    public Collection<Integer> clean() throws Exception {
        store().checkpoint(true);
        return files(data).keySet();
    }

    private KahaDBPersistenceAdapter store() throws IOException {
        return (KahaDBPersistenceAdapter) service.getPersistenceAdapter();
    }

    // -- its journal ------------------------------------------------------------------------------------------------------

    @Override
    public void journal(Collection<String> queues, PrintWriter out) throws IOException {
        TreeMap<Integer, File> files = files(data);
        files.putAll(files(archive));
        for (Map.Entry<Integer, File> each : files.entrySet()) {
            ByteBuffer bytes = read(each.getValue());
            while (batch(each.getKey(), bytes, queues, out)) {
                // on to the next one
            }
        }
    }

    /** Return the journal's files in a folder, by their numbers: in the order in which they were begun. */
    private static TreeMap<Integer, File> files(File folder) {
        TreeMap<Integer, File> files = new TreeMap<>();
        File[] found = folder.listFiles((in, name) -> name.matches("db-\\d+\\.log"));
        for (File file : found == null ? new File[0] : found) {
            files.put(Integer.parseInt(file.getName().replaceAll("\\D", "")), file);
        }
        return files;
    }

    /** Read a file up to where its last whole batch ends: what is being written behind that is not there yet. */
    private static ByteBuffer read(File file) throws IOException {
        int before = -1;
        while (true) {
            byte[] bytes = Files.readAllBytes(file.toPath());
            int end = 0;
            for (int size = whole(bytes, 0); size > 0; size = whole(bytes, end)) {
                end += size;
            }
            String behind = new String(bytes, end, bytes.length - end, StandardCharsets.ISO_8859_1);
            if (behind.indexOf(MAGIC, HEAD + 1) < 0) {
                return ByteBuffer.wrap(bytes, 0, end);
            }
            if (end == before) { // not one that was written while the file was read
                throw new IOException(file + " is damaged at " + end + ": there are batches behind");
            }
            before = end;
        }
    }

    /** Return the size of the batch at a place; 0 where there is none that is whole. */
    private static int whole(byte[] bytes, int at) {
        ByteBuffer head = ByteBuffer.wrap(bytes);
        if (bytes.length - at < BATCH_HEAD || head.getInt(at) != BATCH_HEAD || head.get(at + 4) != BATCH_RECORD) {
            return 0;
        }
        int size = head.getInt(at + BATCH_HEAD - 12);
        long sum = head.getLong(at + BATCH_HEAD - 8);
        if (size < 0 || size > bytes.length - at - BATCH_HEAD) {
            return 0;
        }
        Adler32 seen = new Adler32();
        seen.update(bytes, at + BATCH_HEAD, size);
        return sum == 0 || seen.getValue() == sum ? BATCH_HEAD + size : 0;
    }

    /** Tell what a batch has; false where there is none. */
    private boolean batch(int file, ByteBuffer bytes, Collection<String> queues, PrintWriter out) throws IOException {
        if (!bytes.hasRemaining()) {
            return false;
        }
        int begin = bytes.position() + BATCH_HEAD;
        int end = begin + bytes.getInt(begin - 12);
        bytes.position(begin);
        while (bytes.position() < end) {
            int at = bytes.position();
            int length = bytes.getInt();
            if (bytes.get() == USER_RECORD) {
                entry(file + ":" + at, bytes.array(), at + HEAD, length - HEAD, queues, out);
            }
            bytes.position(at + length);
        }
        return true;
    }

    private void entry(String at, byte[] bytes, int offset, int length, Collection<String> queues, PrintWriter out)
            throws IOException {
        DataByteArrayInputStream in = new DataByteArrayInputStream(new ByteSequence(bytes, offset, length));
        KahaEntryType type = KahaEntryType.valueOf(in.readByte());
        if (type == null) {
            throw new IOException("an entry of a type that nobody knows, at " + at);
        }
        JournalCommand<?> command = (JournalCommand<?>) type.createMessage();
        command.mergeFramed(in);
        Line line = new Line().with("at", at);
        if (command instanceof KahaAddMessageCommand add && is(add.getDestination(), queues)) {
            Message message = (Message) command(add.getMessage());
            Object attempt = message.getProperty(ATTEMPT);
            ByteSequence body = message.getContent();
            byte[] content = body == null ? new byte[0] : Arrays.copyOfRange(body.data, body.offset, body.offset + body.length);
            out.println(line.with("kind", "add").with("queue", add.getDestination().getName()).with("id", add.getMessageId()).with("view", message.getMessageId().getTextView())
                    .with("native", message.getProperty(NATIVE) == null ? null : "amqp")
                    .with("tx", name(add.hasTransactionInfo() ? add.getTransactionInfo() : null))
                    .with("attempt", attempt == null ? null : attempt.toString())
                    .with("body", Base64.getEncoder().encodeToString(content)));
        } else if (command instanceof KahaRemoveMessageCommand remove && is(remove.getDestination(), queues)) {
            MessageAck ack = remove.hasAck() && remove.getAck().getLength() > 0 ? (MessageAck) command(remove.getAck()) : null;
            out.println(line.with("kind", "remove").with("queue", remove.getDestination().getName()).with("id", remove.getMessageId())
                    .with("tx", name(remove.hasTransactionInfo() ? remove.getTransactionInfo() : null))
                    .with("ack", ack == null ? null : Long.valueOf(ack.getAckType())));
        } else if (command instanceof KahaRemoveDestinationCommand gone && is(gone.getDestination(), queues)) {
            out.println(line.with("kind", "purge").with("queue", gone.getDestination().getName()));
        } else if (command instanceof KahaPrepareCommand prepare) {
            out.println(line.with("kind", "prepare").with("tx", name(prepare.getTransactionInfo())));
        } else if (command instanceof KahaCommitCommand commit) {
            out.println(line.with("kind", "commit").with("tx", name(commit.getTransactionInfo())));
        } else if (command instanceof KahaRollbackCommand rollback) {
            out.println(line.with("kind", "rollback").with("tx", name(rollback.getTransactionInfo())));
        }
    }

    private static Object command(Buffer buffer) throws IOException {
        return new OpenWireFormat().unmarshal(new DataInputStream(
                new ByteArrayInputStream(buffer.getData(), buffer.getOffset(), buffer.getLength())));
    }

    private static boolean is(KahaDestination destination, Collection<String> queues) {
        return destination.getType() == KahaDestination.DestinationType.QUEUE && queues.contains(destination.getName());
    }

    private static String hex(Buffer buffer) {
        return HexFormat.of().formatHex(buffer.getData(), buffer.getOffset(), buffer.getOffset() + buffer.getLength());
    }

    private static String name(KahaTransactionInfo info) {
        if (info == null) {
            return null;
        }
        if (info.hasXaTransactionId()) {
            return "xa:" + hex(info.getXaTransactionId().getGlobalTransactionId()) + ":"
                    + hex(info.getXaTransactionId().getBranchQualifier());
        }
        return info.getLocalTransactionId().getConnectionId() + ":" + info.getLocalTransactionId().getTransactionId();
    }
}
