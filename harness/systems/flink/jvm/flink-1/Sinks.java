package lostack.flink;

import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSinkBuilder;

/** The same for connectors of Flink 1: ids count up, whatever one wants. */
final class Sinks {
    private Sinks() {}

    static void name(KafkaSinkBuilder<?> sink, String strategy) {
        if (!strategy.equals("INCREMENTING")) {
            throw new IllegalArgumentException("this connector knows no " + strategy);
        }
    }

    interface ToOneTopic<T> extends KafkaRecordSerializationSchema<T> {
        String topic();
    }
}
