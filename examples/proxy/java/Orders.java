import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Sends orders to a topic, and reads them. */
final class Orders {
    private static final Pattern ORDER = Pattern.compile("\"order\": (\\d+)");

    private Orders() {}

    /** Sends orders one behind the other; returns when the broker has confirmed the last one. */
    static void place(String broker, String topic, List<Integer> numbers, boolean idempotent)
            throws InterruptedException, ExecutionException {
        Map<String, Object> settings = Map.of(
                "bootstrap.servers", broker,
                "acks", "all",
                "enable.idempotence", idempotent);
        try (var producer = new KafkaProducer<>(
                settings, new StringSerializer(), new StringSerializer())) {
            for (int number : numbers) {
                String value = "{\"order\": " + number + "}";
                producer.send(new ProducerRecord<String, String>(topic, value)).get();
            }
        }
    }

    /** Returns the orders of a topic, in order, up to the one called last. */
    static List<Integer> read(String broker, String topic, int last) {
        Map<String, Object> settings = Map.of(
                "bootstrap.servers", broker,
                "group.id", "orders-" + topic,
                "auto.offset.reset", "earliest");
        List<Integer> found = new ArrayList<>();
        try (var consumer = new KafkaConsumer<>(
                settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            while (!found.contains(last)) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofSeconds(1))) {
                    var order = ORDER.matcher(record.value());
                    if (order.find()) {
                        found.add(Integer.valueOf(order.group(1)));
                    }
                }
            }
        }
        return found;
    }
}
