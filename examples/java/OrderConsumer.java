import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;

/** Prints every record, then saves its position. Knows nothing of lostack. */
public final class OrderConsumer {
    public static void main(String[] arguments) {
        Map<String, Object> settings = Map.of(
                "bootstrap.servers", System.getenv("BOOTSTRAP_SERVERS"), "group.id", "printing",
                "enable.auto.commit", false, "auto.offset.reset", "earliest", "max.poll.records", 1);
        var deserializer = new StringDeserializer();
        try (var consumer = new KafkaConsumer<>(settings, deserializer, deserializer)) {
            consumer.subscribe(List.of("orders"));
            while (true) {
                var records = consumer.poll(Duration.ofSeconds(1));
                for (var record : records) {
                    System.out.println(record.value());
                }
                if (!records.isEmpty()) {
                    consumer.commitSync();
                }
            }
        }
    }
}
