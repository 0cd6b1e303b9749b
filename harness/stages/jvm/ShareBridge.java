package lostack;

import java.io.PrintStream;
import java.time.Duration;
import java.util.Collections;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;

/**
 * The same for the reader of a share group, which clients have since Kafka 4.2. Older ones know no such class: so it is a source
 * of its own.
 */
public class ShareBridge extends ClientBridge {
    /** What was polled last, by topic, partition and offset. */
    private final Map polled = new HashMap();

    private ShareBridge(PrintStream out) {
        super(out);
    }

    public static void main(String[] words) throws Exception {
        new ShareBridge(toCaller()).run();
        Runtime.getRuntime().halt(0);
    }

    protected String call(String[] words) throws Exception {
        if (words[0].equals("sharer")) {
            return added(new KafkaShareConsumer(properties(words, 1)));
        }
        Object thing = words.length > 1 ? things.get(words[1]) : null;
        return thing instanceof KafkaShareConsumer ? called((KafkaShareConsumer) thing, words) : super.call(words);
    }

    private String called(KafkaShareConsumer consumer, String[] words) throws Exception {
        String what = words[0];
        if (what.equals("subscribe")) {
            consumer.subscribe(Collections.singletonList(words[2]));
            return "";
        }
        if (what.equals("poll")) {
            StringBuilder found = new StringBuilder();
            ConsumerRecords records = consumer.poll(Duration.ofMillis(Long.parseLong(words[2])));
            polled.clear();
            for (Iterator each = records.iterator(); each.hasNext();) {
                ConsumerRecord record = (ConsumerRecord) each.next();
                polled.put(record.topic() + " " + record.partition() + " " + record.offset(), record);
                found.append("\t" + record.topic() + "\t" + record.partition() + "\t" + number(record.leaderEpoch()) + "\t"
                    + record.offset() + "\t" + number(record.deliveryCount()) + "\t" + coded((byte[]) record.key()) + "\t"
                    + coded((byte[]) record.value()));
            }
            return found.toString();
        }
        if (what.equals("acknowledge")) {
            ConsumerRecord record = (ConsumerRecord) polled.get(words[2] + " " + words[3] + " " + words[4]);
            consumer.acknowledge(record, AcknowledgeType.valueOf(words[5]));
            return "";
        }
        if (what.equals("commit")) {
            Map told = consumer.commitSync(Duration.ofMillis(Long.parseLong(words[2])));
            for (Iterator each = told.values().iterator(); each.hasNext();) {
                Optional error = (Optional) each.next();
                if (error.isPresent()) {
                    throw (KafkaException) error.get();
                }
            }
            return "\t" + told.size();
        }
        throw new IllegalArgumentException(what);
    }

    private static String number(Optional value) {
        return value.isPresent() ? value.get().toString() : "-1";
    }
}
