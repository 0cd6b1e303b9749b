import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.common.serialization.StringSerializer;
import org.springframework.kafka.core.DefaultKafkaProducerFactory;
import org.springframework.kafka.core.KafkaTemplate;

/** Sends each line of standard input to a topic. */
public final class Producer {
    private static Map<String, Object> settings(String mode) {
        return switch (mode) {
            case "at-most-once" -> Map.of("acks", "1", "retries", 0, "enable.idempotence", false);
            case "at-least-once" -> Map.of("acks", "all", "enable.idempotence", false);
            default -> Map.of();
        };
    }

    public static void main(String[] arguments) throws Exception {
        String mode = arguments[0];
        var settings = new HashMap<>(settings(mode));
        settings.put("bootstrap.servers", System.getenv("BOOTSTRAP_SERVERS"));
        var serializer = new StringSerializer();
        var factory = new DefaultKafkaProducerFactory<String, String>(settings, serializer, serializer);
        var template = new KafkaTemplate<>(factory);
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            template.send("orders", line).whenComplete((stored, error) -> {
                if (error != null) {
                    System.err.println("not sent: " + error);
                    if (!mode.equals("at-most-once")) {
                        Runtime.getRuntime().halt(1);
                    }
                }
            });
        }
        template.flush();
        factory.destroy();
    }
}
