package lostack;

import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.internals.RecordHeader;

/**
 * The Java client of one stage program, called over its standard input and output.
 *
 * A call is a line of words between tabs; bytes are Base64, "-" is null. The answer is {@code ok} with its words, or
 * {@code error}, the exception's name and what it said; before it, once per assignment, {@code assigned} with partitions, which
 * the caller answers by where to begin. One call at a time, in one thread: between two calls nothing happens here but what the
 * client does by itself. When the caller is gone, this is gone, without a goodbye to any broker. Compiled by the Janino inside
 * PySpark (no lambdas, no type arguments), so no JDK is needed.
 */
public class ClientBridge {
    private final BufferedReader in = new BufferedReader(
        new InputStreamReader(new FileInputStream(FileDescriptor.in), StandardCharsets.US_ASCII));
    private final PrintStream out;
    /** Producers, consumers, records under way and group metadata, by the numbers that the caller has. */
    protected final Map things = new HashMap();
    private int last = 0;

    protected ClientBridge(PrintStream out) {
        this.out = out;
    }

    public static void main(String[] words) throws Exception {
        new ClientBridge(toCaller()).run();
        Runtime.getRuntime().halt(0);
    }

    /** What the caller reads; what anybody else prints goes elsewhere from now on. */
    protected static PrintStream toCaller() throws IOException {
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), false, "US-ASCII");
        System.setOut(System.err);
        return out;
    }

    protected void run() throws IOException {
        String line;
        while ((line = in.readLine()) != null) {
            String answer;
            try {
                answer = "ok" + call(line.split("\t", -1));
            } catch (Throwable raised) {
                Throwable error = raised;
                while (error instanceof ExecutionException && error.getCause() != null) {
                    error = error.getCause();
                }
                String said = String.valueOf(error.getMessage());
                answer = "error\t" + error.getClass().getSimpleName() + "\t" + coded(said.getBytes(StandardCharsets.UTF_8));
            }
            say(answer);
        }
    }

    private void say(String line) {
        out.print(line + "\n");
        out.flush();
    }

    protected String call(String[] words) throws Exception {
        String what = words[0];
        if (what.equals("producer")) {
            return added(new KafkaProducer(properties(words, 1)));
        }
        if (what.equals("consumer")) {
            return added(new KafkaConsumer(properties(words, 1)));
        }
        if (what.equals("last")) {
            return lastValue(words[1], properties(words, 2));
        }
        Object thing = things.get(words[1]);
        if (thing instanceof KafkaProducer) {
            return called((KafkaProducer) thing, words);
        }
        return called((KafkaConsumer) thing, words);
    }

    private String called(KafkaProducer producer, String[] words) throws Exception {
        String what = words[0];
        if (what.equals("send")) {
            ProducerRecord record = new ProducerRecord(words[2], null, decoded(words[3]), decoded(words[4]));
            for (int i = 5; i < words.length; i += 2) {
                record.headers().add(new RecordHeader(words[i], decoded(words[i + 1])));
            }
            return added(producer.send(record));
        }
        if (what.equals("wait")) {
            Future pending = (Future) things.remove(words[2]);
            RecordMetadata told = (RecordMetadata) pending.get(Long.parseLong(words[3]), TimeUnit.MILLISECONDS);
            return "\t" + told.partition() + "\t" + (told.hasOffset() ? told.offset() : -1L);
        }
        if (what.equals("init")) {
            producer.initTransactions();
        } else if (what.equals("begin")) {
            producer.beginTransaction();
        } else if (what.equals("commit")) {
            producer.commitTransaction();
        } else if (what.equals("abort")) {
            producer.abortTransaction();
        } else if (what.equals("offsets")) {
            producer.sendOffsetsToTransaction(positions(words[2], words[3]), (ConsumerGroupMetadata) things.get(words[4]));
        } else if (what.equals("close")) {
            producer.close(Duration.ofMillis(Long.parseLong(words[2])));
            things.remove(words[1]);
        } else {
            throw new IllegalArgumentException(what);
        }
        return "";
    }

    private String called(final KafkaConsumer consumer, String[] words) throws Exception {
        String what = words[0];
        if (what.equals("known")) {
            List partitions = consumer.partitionsFor(words[2], Duration.ofMillis(Long.parseLong(words[3])));
            return "\t" + (partitions == null ? 0 : partitions.size());
        }
        if (what.equals("subscribe")) {
            consumer.subscribe(Collections.singletonList(words[2]), new ConsumerRebalanceListener() {
                public void onPartitionsRevoked(Collection partitions) {
                }

                public void onPartitionsAssigned(Collection partitions) {
                    begin(consumer, partitions);
                }
            });
            return "";
        }
        if (what.equals("poll")) {
            StringBuilder found = new StringBuilder();
            ConsumerRecords records = consumer.poll(Duration.ofMillis(Long.parseLong(words[2])));
            for (Iterator each = records.iterator(); each.hasNext();) {
                ConsumerRecord record = (ConsumerRecord) each.next();
                Optional epoch = record.leaderEpoch();
                found.append("\t" + record.topic() + "\t" + record.partition() + "\t" + (epoch.isPresent() ? epoch.get() : "-1")
                    + "\t" + record.offset() + "\t" + coded((byte[]) record.key()) + "\t" + coded((byte[]) record.value()));
            }
            return found.toString();
        }
        if (what.equals("commit")) {
            consumer.commitSync(positions(words[2], words[3]), Duration.ofMillis(Long.parseLong(words[4])));
            return "";
        }
        if (what.equals("seek")) {
            consumer.seek(new TopicPartition(words[2], Integer.parseInt(words[3])), Long.parseLong(words[4]));
            return "";
        }
        if (what.equals("assignment")) {
            return "\t" + numbers(consumer.assignment());
        }
        if (what.equals("membership")) {
            ConsumerGroupMetadata now = consumer.groupMetadata();
            return added(now) + "\t" + now.generationId();
        }
        throw new IllegalArgumentException(what);
    }

    /** Tell the caller its partitions, and begin where it says. */
    private void begin(KafkaConsumer consumer, Collection partitions) {
        if (partitions.isEmpty()) {
            return;
        }
        String topic = ((TopicPartition) partitions.iterator().next()).topic();
        say("assigned\t" + numbers(partitions));
        try {
            Map begins = positions(topic, in.readLine());
            for (Iterator each = begins.keySet().iterator(); each.hasNext();) {
                TopicPartition partition = (TopicPartition) each.next();
                consumer.seek(partition, ((OffsetAndMetadata) begins.get(partition)).offset());
            }
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }

    private String lastValue(String topic, Properties properties) {
        KafkaConsumer consumer = new KafkaConsumer(properties);
        try {
            List partitions = Collections.singletonList(new TopicPartition(topic, 0));
            TopicPartition partition = (TopicPartition) partitions.get(0);
            consumer.assign(partitions);
            long end = ((Long) consumer.endOffsets(partitions).get(partition)).longValue();
            consumer.seekToBeginning(partitions);
            byte[] value = null;
            while (consumer.position(partition) < end) {
                ConsumerRecords records = consumer.poll(Duration.ofMillis(200));
                for (Iterator each = records.iterator(); each.hasNext();) {
                    value = (byte[]) ((ConsumerRecord) each.next()).value();
                }
            }
            return "\t" + coded(value);
        } finally {
            consumer.close(Duration.ofMillis(1000));
        }
    }

    protected String added(Object thing) {
        last += 1;
        things.put(String.valueOf(last), thing);
        return "\t" + last;
    }

    protected static Properties properties(String[] words, int from) {
        Properties found = new Properties();
        for (int i = from; i < words.length; i++) {
            int at = words[i].indexOf('=');
            found.setProperty(words[i].substring(0, at), words[i].substring(at + 1));
        }
        return found;
    }

    /** Partitions and offsets, such as {@code 0=17,2=4}. */
    private static Map positions(String topic, String text) {
        Map found = new HashMap();
        String[] parts = text.isEmpty() ? new String[0] : text.split(",");
        for (int i = 0; i < parts.length; i++) {
            String[] pair = parts[i].split("=");
            found.put(new TopicPartition(topic, Integer.parseInt(pair[0])), new OffsetAndMetadata(Long.parseLong(pair[1])));
        }
        return found;
    }

    private static String numbers(Collection partitions) {
        TreeSet sorted = new TreeSet();
        for (Iterator each = partitions.iterator(); each.hasNext();) {
            sorted.add(Integer.valueOf(((TopicPartition) each.next()).partition()));
        }
        StringBuilder text = new StringBuilder();
        for (Iterator each = sorted.iterator(); each.hasNext();) {
            text.append(text.length() == 0 ? "" : ",").append(each.next());
        }
        return text.toString();
    }

    protected static String coded(byte[] data) {
        return data == null ? "-" : Base64.getEncoder().encodeToString(data);
    }

    private static byte[] decoded(String word) {
        return word.equals("-") ? null : Base64.getDecoder().decode(word);
    }
}
