import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Books orders, one at a time, each after some work, and lets its client save the positions of what
 * it has booked. The second word is the group protocol. Knows nothing of lostack.
 */
public class Booker {
    public static void main(String[] words) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", System.getenv("BOOTSTRAP_SERVERS"));
        settings.put("group.id", "billing");
        if (words[1].equals("consumer")) {
            settings.put("group.protocol", words[1]);
        } else {
            settings.put("heartbeat.interval.ms", "500");
        }
        settings.put("max.poll.records", "1");
        settings.put("auto.offset.reset", "earliest");
        settings.put("auto.commit.interval.ms", "1000");
        StringDeserializer text = new StringDeserializer();
        try (var consumer = new KafkaConsumer<>(settings, text, text)) {
            consumer.subscribe(List.of("orders"));
            while (true) {
                for (ConsumerRecord<String, String> order : consumer.poll(Duration.ofMillis(200))) {
                    Thread.sleep(400);
                    Files.writeString(Path.of(words[0]), order.value() + "\n",
                        StandardOpenOption.CREATE, StandardOpenOption.APPEND);
                }
            }
        }
    }
}
