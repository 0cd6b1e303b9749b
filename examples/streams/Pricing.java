import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;

/** Prices every order, from topic to topic. Knows nothing of lostack. */
public final class Pricing {
    public static void main(String[] arguments) {
        var settings = new Properties();
        settings.put("bootstrap.servers", System.getenv("BOOTSTRAP_SERVERS"));
        settings.put("application.id", "pricing");
        settings.put("state.dir", arguments[0]);
        if (arguments.length > 1) {
            settings.put("processing.guarantee", arguments[1]);
        }
        settings.put("commit.interval.ms", 200);
        settings.put("producer.transaction.timeout.ms", 3000); // what a crash leaves open keeps readers waiting for so long
        settings.put("default.key.serde", Serdes.StringSerde.class);
        settings.put("default.value.serde", Serdes.StringSerde.class);

        var builder = new StreamsBuilder();
        builder.<String, String>stream("orders")
                .mapValues(order -> "{\"price\": " + order.length() + ", \"of\": " + order + "}")
                .to("priced");
        var streams = new KafkaStreams(builder.build(), settings);
        Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
        streams.start();
    }
}
