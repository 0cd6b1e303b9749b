import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/** Sends each line of standard input to a topic. Knows nothing of lostack. */
public final class OrderProducer {
    public static void main(String[] arguments) throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.servers", System.getenv("BOOTSTRAP_SERVERS"), "acks", "all");
        var serializer = new StringSerializer();
        try (var producer = new KafkaProducer<>(settings, serializer, serializer);
                var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                producer.send(new ProducerRecord<>("orders", line)).get();
            }
        }
    }
}
