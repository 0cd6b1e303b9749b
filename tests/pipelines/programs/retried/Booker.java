import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.springframework.kafka.core.DefaultKafkaConsumerFactory;
import org.springframework.kafka.listener.BatchMessageListener;
import org.springframework.kafka.listener.CommonDelegatingErrorHandler;
import org.springframework.kafka.listener.ContainerProperties;
import org.springframework.kafka.listener.DefaultErrorHandler;
import org.springframework.kafka.listener.KafkaMessageListenerContainer;
import org.springframework.util.backoff.FixedBackOff;

/**
 * Books orders in batches. The shop is busy when it is asked first, and takes the batch when it is
 * asked again. Knows nothing of lostack.
 */
public class Booker {
    private static final long AGAIN_AFTER_MS = 1_500;
    private static boolean asked;

    public static void main(String[] words) {
        Path shop = Path.of(words[0]);
        var text = new StringDeserializer();
        var factory = new DefaultKafkaConsumerFactory<String, String>(
            Map.of("bootstrap.servers", System.getenv("BOOTSTRAP_SERVERS"), "group.id", "billing",
                "auto.offset.reset", "earliest", "heartbeat.interval.ms", "500", "max.poll.records", "8"),
            text, text);
        var properties = new ContainerProperties("orders");
        BatchMessageListener<String, String> books = batch -> book(batch, shop);
        properties.setMessageListener(books);
        var container = new KafkaMessageListenerContainer<>(factory, properties);
        var again = new FixedBackOff(AGAIN_AFTER_MS, FixedBackOff.UNLIMITED_ATTEMPTS);
        container.setCommonErrorHandler(
            new CommonDelegatingErrorHandler(new DefaultErrorHandler(again)));
        container.start();
    }

    private static void book(List<ConsumerRecord<String, String>> batch, Path shop) {
        asked = !asked;
        if (asked) {
            throw new IllegalStateException("the shop is busy");
        }
        String lines = batch.stream().map(order -> order.value() + "\n").collect(Collectors.joining());
        try {
            Files.writeString(shop, lines, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        } catch (java.io.IOException problem) {
            throw new java.io.UncheckedIOException(problem);
        }
    }
}
