package lostack.flink;

import java.util.List;
import java.util.Optional;
import org.apache.flink.connector.kafka.lineage.DefaultKafkaDatasetFacet;
import org.apache.flink.connector.kafka.lineage.DefaultKafkaDatasetIdentifier;
import org.apache.flink.connector.kafka.lineage.KafkaDatasetFacet;
import org.apache.flink.connector.kafka.lineage.KafkaDatasetFacetProvider;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSinkBuilder;
import org.apache.flink.connector.kafka.sink.TransactionNamingStrategy;

/** What the sink of this connector has that others have not. */
final class Sinks {
    private Sinks() {}

    static void name(KafkaSinkBuilder<?> sink, String strategy) {
        sink.setTransactionNamingStrategy(TransactionNamingStrategy.valueOf(strategy));
    }

    /** Whoever lists open transactions asks for topics. */
    interface ToOneTopic<T> extends KafkaRecordSerializationSchema<T>, KafkaDatasetFacetProvider {
        String topic();

        @Override
        default Optional<KafkaDatasetFacet> getKafkaDatasetFacet() {
            return Optional.of(new DefaultKafkaDatasetFacet(DefaultKafkaDatasetIdentifier.ofTopics(List.of(topic()))));
        }
    }
}
