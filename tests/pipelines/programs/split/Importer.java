import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Sends the orders of a file, eight at a time: waits for all of them (flush), looks whether one has
 * failed, then notes how far the file is sent. Knows nothing of lostack.
 */
public class Importer {
    public static void main(String[] words) throws Exception {
        Path file = Path.of(words[0]), cursor = Path.of(words[0] + ".cursor");
        Properties settings = new Properties();
        settings.put("bootstrap.servers", System.getenv("BOOTSTRAP_SERVERS"));
        settings.put("linger.ms", "20");
        List<String> lines = Files.readAllLines(file);
        int at = Files.exists(cursor) ? Integer.parseInt(Files.readString(cursor)) : 0;
        AtomicReference<Exception> failed = new AtomicReference<>();
        StringSerializer text = new StringSerializer();
        try (var producer = new KafkaProducer<>(settings, text, text)) {
            while (at < lines.size()) {
                int to = Math.min(at + 8, lines.size());
                for (String line : lines.subList(at, to)) {
                    producer.send(new ProducerRecord<>("orders", line), (sent, error) -> {
                        if (error != null) failed.compareAndSet(null, error);
                    });
                }
                producer.flush();
                if (failed.get() != null) {
                    System.out.println("not sent: " + failed.get());
                    Runtime.getRuntime().halt(1);
                }
                at = to;
                Path part = Path.of(words[0] + ".part");
                Files.writeString(part, String.valueOf(at));
                Files.move(part, cursor, StandardCopyOption.ATOMIC_MOVE);
            }
        }
    }
}
