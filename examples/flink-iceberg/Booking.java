import java.util.Map;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.Schema;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.flink.CatalogLoader;
import org.apache.iceberg.flink.TableLoader;
import org.apache.iceberg.flink.sink.IcebergSink;
import org.apache.iceberg.types.Types;
import org.apache.kafka.clients.consumer.OffsetResetStrategy;

/** Books every order into a table of Iceberg. Knows nothing of lostack. */
@SuppressWarnings("deprecation") // OffsetResetStrategy, which the connector asks for
public final class Booking {
    /** Words: the folder of the catalog, that of checkpoints, and where to begin: a checkpoint, {@code earliest}, or {@code offsets} (those of the group). */
    public static void main(String[] words) throws Exception {
        var settings = new org.apache.flink.configuration.Configuration();
        settings.setString("execution.checkpointing.interval", "500 ms");
        settings.setString("execution.checkpointing.dir", "file://" + words[1]);
        settings.setString("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION");
        if (words[2].startsWith("/")) {
            settings.setString("execution.state-recovery.path", "file://" + words[2]);
        }
        if (System.getenv("JOB_ID") != null) { // as a deployment in application mode with high availability has it
            settings.setString("$internal.pipeline.job-id", System.getenv("JOB_ID"));
        }
        var flink = StreamExecutionEnvironment.getExecutionEnvironment(settings).setParallelism(1);

        var lake = CatalogLoader.hadoop("lake", new Configuration(), Map.of("warehouse", words[0]));
        var booked = TableIdentifier.of("shop", "booked");
        var tables = lake.loadCatalog();
        if (!tables.tableExists(booked)) {
            tables.createTable(booked, new Schema(Types.NestedField.required(1, "booked", Types.StringType.get())));
        }
        var begin = words[2].equals("offsets") ? OffsetsInitializer.committedOffsets(OffsetResetStrategy.EARLIEST)
                : OffsetsInitializer.earliest(); // a checkpoint has its own
        var source = KafkaSource.<String>builder().setBootstrapServers(System.getenv("BOOTSTRAP_SERVERS")).setTopics("orders")
                .setGroupId("booking").setStartingOffsets(begin).setValueOnlyDeserializer(new SimpleStringSchema()).build();
        var rows = flink.fromSource(source, WatermarkStrategy.noWatermarks(), "source").uid("source")
                .map(order -> (RowData) GenericRowData.of(StringData.fromString(order))).returns(RowData.class).uid("row");
        IcebergSink.forRowData(rows).tableLoader(TableLoader.fromCatalog(lake, booked)).uidSuffix("booked").append();
        flink.execute("booking");
    }
}
