import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.Optional;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/** Prices every order, from topic to topic. Knows nothing of lostack. */
public final class Pricing {
    /** Words: two topics, the folder of checkpoints, then the guarantee and the prefix of transactional ids, where they are set. */
    public static void main(String[] words) throws Exception {
        var checkpoints = Path.of(words[2]);
        var settings = new Configuration();
        settings.setString("execution.checkpointing.interval", "200 ms");
        settings.setString("execution.checkpointing.dir", "file://" + checkpoints);
        settings.setString("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION");
        newest(checkpoints).ifPresent(from -> settings.setString("execution.state-recovery.path", from.toString()));
        var flink = StreamExecutionEnvironment.getExecutionEnvironment(settings).setParallelism(1);

        var servers = System.getenv("BOOTSTRAP_SERVERS");
        var source = KafkaSource.<String>builder().setBootstrapServers(servers).setTopics(words[0]).setGroupId(words[0])
                .setProperty("isolation.level", "read_committed").setStartingOffsets(OffsetsInitializer.earliest())
                .setValueOnlyDeserializer(new SimpleStringSchema()).build();
        var sink = KafkaSink.<String>builder().setBootstrapServers(servers)
                .setRecordSerializer(KafkaRecordSerializationSchema.builder().setTopic(words[1])
                        .setValueSerializationSchema(new SimpleStringSchema()).build())
                .setProperty("linger.ms", "1000") // fewer and larger requests
                // what a crash leaves open may keep readers waiting so long; a job that is back later loses what it had yet to commit
                .setProperty("transaction.timeout.ms", "40000");
        if (words.length > 3) {
            sink.setDeliveryGuarantee(DeliveryGuarantee.valueOf(words[3]));
        }
        if (words.length > 4) {
            sink.setTransactionalIdPrefix(words[4]);
        }
        flink.fromSource(source, WatermarkStrategy.noWatermarks(), "source").uid("source")
                .map(order -> "{\"price\": " + order.length() + ", \"of\": " + order + "}").uid("price")
                .sinkTo(sink.build()).uid("sink");
        flink.execute("pricing");
    }

    /** Returns the newest completed checkpoint, as whoever starts a job again would look for it. */
    private static Optional<Path> newest(Path folder) throws IOException {
        if (Files.notExists(folder)) {
            return Optional.empty();
        }
        try (var files = Files.walk(folder)) {
            return files.filter(file -> file.endsWith("_metadata"))
                    .max(Comparator.comparing(file -> file.toFile().lastModified())).map(Path::getParent);
        }
    }
}
