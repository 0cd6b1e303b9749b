import java.io.FileOutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Writes each order into a file, and saves the position behind it. The second word: {@code once},
 * who writes an order again replaces its file; {@code again}, each time it is another file. The
 * third is the group protocol. Knows nothing of lostack.
 */
public class Writer {
    public static void main(String[] words) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", System.getenv("BOOTSTRAP_SERVERS"));
        settings.put("group.id", "billing");
        settings.put("group.protocol", words[2]);
        if (words[2].equals("classic")) {
            settings.put("heartbeat.interval.ms", "500");
        }
        settings.put("max.poll.records", "1");
        settings.put("max.poll.interval.ms", "6000");
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        StringDeserializer text = new StringDeserializer();
        try (var consumer = new KafkaConsumer<>(settings, text, text)) {
            consumer.subscribe(List.of("orders"));
            while (true) {
                for (ConsumerRecord<String, String> order : consumer.poll(Duration.ofMillis(200))) {
                    write(order.value(), words);
                    try {
                        consumer.commitSync();
                    } catch (CommitFailedException | RebalanceInProgressException another) {
                        System.err.println("it is another's by now");
                    }
                }
            }
        }
    }

    private static void write(String order, String[] words) throws Exception {
        String number = order.split("\"")[3];
        String each = words[1].equals("once") ? "" : "-" + System.nanoTime();
        Path file = Path.of(words[0], number + each + ".new");
        try (FileOutputStream out = new FileOutputStream(file.toFile())) {
            out.write(order.getBytes());
            out.getFD().sync();
        }
        Files.move(file, Path.of(words[0], number + each + ".txt"),
            StandardCopyOption.ATOMIC_MOVE);
    }
}
