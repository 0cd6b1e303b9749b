import java.util.Map;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.springframework.kafka.core.DefaultKafkaConsumerFactory;
import org.springframework.kafka.core.DefaultKafkaProducerFactory;
import org.springframework.kafka.core.KafkaTemplate;
import org.springframework.kafka.listener.ContainerProperties;
import org.springframework.kafka.listener.KafkaMessageListenerContainer;
import org.springframework.kafka.listener.MessageListener;
import org.springframework.kafka.transaction.KafkaTransactionManager;

/** Copies every record to another topic, in one transaction with its position. */
public final class Processor {
    public static void main(String[] arguments) {
        String servers = System.getenv("BOOTSTRAP_SERVERS");
        var into = new StringSerializer();
        var from = new StringDeserializer();
        var producers = new DefaultKafkaProducerFactory<String, String>(
                Map.of("bootstrap.servers", servers), into, into);
        producers.setTransactionIdPrefix("pricing");
        var template = new KafkaTemplate<>(producers);
        var consumers = new DefaultKafkaConsumerFactory<String, String>(
                Map.of("bootstrap.servers", servers, "group.id", "pricing",
                        "auto.offset.reset", "earliest", "isolation.level", "read_committed"),
                from, from);
        var properties = new ContainerProperties("orders");
        properties.setKafkaAwareTransactionManager(new KafkaTransactionManager<>(producers));
        MessageListener<String, String> copies = record -> template.send("priced", record.value());
        properties.setMessageListener(copies);
        new KafkaMessageListenerContainer<>(consumers, properties).start();
    }
}
