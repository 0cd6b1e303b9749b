import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;

/** Prints every record of a topic. */
public final class Consumer {
    public static void main(String[] arguments) {
        String mode = arguments[0];
        var settings = new HashMap<String, Object>(Map.of(
                "bootstrap.servers", System.getenv("BOOTSTRAP_SERVERS"), "group.id", "billing",
                "auto.offset.reset", "earliest"));
        if (mode.equals("kip-848")) {
            settings.put("group.protocol", "consumer");
        } else if (!mode.equals("as-it-comes")) {
            settings.putAll(Map.of("enable.auto.commit", false, "max.poll.records", 1));
        }
        var deserializer = new StringDeserializer();
        try (var consumer = new KafkaConsumer<>(settings, deserializer, deserializer)) {
            consumer.subscribe(List.of("orders"));
            while (true) {
                for (var record : consumer.poll(Duration.ofSeconds(1))) {
                    if (mode.equals("at-most-once")) {
                        consumer.commitSync();
                    }
                    System.out.println(record.value());
                    if (mode.equals("at-least-once")) {
                        consumer.commitSync();
                    }
                }
            }
        }
    }
}
