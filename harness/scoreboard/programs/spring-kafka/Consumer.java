import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.springframework.kafka.core.DefaultKafkaConsumerFactory;
import org.springframework.kafka.listener.AcknowledgingMessageListener;
import org.springframework.kafka.listener.ContainerProperties;
import org.springframework.kafka.listener.ContainerProperties.AckMode;
import org.springframework.kafka.listener.KafkaMessageListenerContainer;
import org.springframework.kafka.listener.MessageListener;

/** Prints every record of a topic. */
public final class Consumer {
    public static void main(String[] arguments) {
        String mode = arguments[0];
        var settings = new HashMap<String, Object>(Map.of(
                "bootstrap.servers", System.getenv("BOOTSTRAP_SERVERS"), "group.id", "billing",
                "auto.offset.reset", "earliest"));
        if (mode.equals("kip-848")) {
            settings.put("group.protocol", "consumer");
        }
        var deserializer = new StringDeserializer();
        var factory = new DefaultKafkaConsumerFactory<String, String>(settings, deserializer, deserializer);
        var properties = new ContainerProperties("orders");
        MessageListener<String, String> prints = record -> System.out.println(record.value());
        properties.setMessageListener(prints);
        if (mode.equals("at-least-once")) {
            properties.setAckMode(AckMode.RECORD);
        } else if (mode.equals("at-most-once")) {
            properties.setAckMode(AckMode.MANUAL_IMMEDIATE);
            AcknowledgingMessageListener<String, String> commits = (record, position) -> {
                position.acknowledge();
                System.out.println(record.value());
            };
            properties.setMessageListener(commits);
        }
        new KafkaMessageListenerContainer<>(factory, properties).start();
    }
}
