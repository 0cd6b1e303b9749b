import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Sends orders one behind the other, and reads them as a group: BOOTSTRAP TOPIC COUNT IDEMPOTENT
 * PROTOCOL. Prints the orders that were read, as JSON.
 */
public final class Client {
    private Client() {}

    public static void main(String[] words) throws Exception {
        send(words);
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", words[0]);
        settings.put("group.id", "group-" + words[1]);
        settings.put("group.protocol", words[4]);
        settings.put("auto.offset.reset", "earliest");
        List<String> found = new ArrayList<>();
        Set<String> seen = new HashSet<>();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(
                settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(words[1]));
            while (seen.size() < Integer.parseInt(words[2])) {
                for (ConsumerRecord<String, String> each : consumer.poll(Duration.ofSeconds(1))) {
                    found.add(each.key());
                    seen.add(each.key());
                }
            }
        }
        System.out.println("[" + String.join(",", found) + "]");
    }

    static void send(String[] words) throws Exception {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", words[0]);
        settings.put("acks", "all");
        settings.put("enable.idempotence", words[3]);
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(
                settings, new StringSerializer(), new StringSerializer())) {
            for (int number = 0; number < Integer.parseInt(words[2]); number++) {
                String value = "{\"order\": " + number + "}";
                producer.send(new ProducerRecord<>(words[1], "" + number, value)).get();
            }
        }
    }
}
