import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;

/** The same with a share group. */
public final class Sharing {
    private Sharing() {}

    public static void main(String[] words) throws Exception {
        Client.send(words);
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", words[0]);
        settings.put("group.id", "group-" + words[1]);
        try (Admin admin = Admin.create(settings)) {
            ConfigResource group = new ConfigResource(
                    ConfigResource.Type.GROUP, "group-" + words[1]);
            AlterConfigOp earliest = new AlterConfigOp(
                    new ConfigEntry("share.auto.offset.reset", "earliest"),
                    AlterConfigOp.OpType.SET);
            admin.incrementalAlterConfigs(Map.of(group, List.of(earliest))).all().get();
        }
        List<String> found = new ArrayList<>();
        Set<String> seen = new HashSet<>();
        try (KafkaShareConsumer<String, String> consumer = new KafkaShareConsumer<>(
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
}
