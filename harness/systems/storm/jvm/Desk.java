package lostack;

import java.io.PrintWriter;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.storm.StormSubmitter;
import org.apache.storm.generated.KillOptions;
import org.apache.storm.shade.org.apache.zookeeper.server.ZooKeeperServerMain;
import org.apache.storm.utils.NimbusClient;
import org.apache.storm.utils.Utils;

/**
 * ZooKeeper, and beside it in the same JVM who submits and ends topologies: each word of that would be a JVM of its own else.
 *
 * {@code Desk <port for questions> <settings of ZooKeeper>}; what is asked: {@code submit NAME name=value ...}, where
 * {@code conf.} begins the names of the topology's own settings, {@code kill NAME}, and {@code list}.
 */
final class Desk {
    private Desk() {
    }

    public static void main(String[] words) throws Exception {
        Thread keeper = new Thread(() -> {
            ZooKeeperServerMain.main(new String[] {words[1]});
            System.exit(1);
        }, "zookeeper");
        keeper.setDaemon(true);
        keeper.start();
        ControlPort.answer(Integer.parseInt(words[0]), Desk::reply);
    }

    private static void reply(List<String> words, PrintWriter out) throws Exception {
        Map<String, Object> conf = Utils.readStormConfig();
        switch (words.get(0)) {
            case "submit" -> {
                Map<String, String> told = new HashMap<>();
                for (String word : words.subList(2, words.size())) {
                    int at = word.indexOf('=');
                    told.put(word.substring(0, at), word.substring(at + 1));
                }
                Map<String, Object> own = Topology.below(told, "conf.");
                own.replaceAll((name, value) -> typed((String) value));
                StormSubmitter.submitTopology(words.get(1), own, Topology.of(told));
                out.println(new ControlPort.Line().with("submitted", words.get(1)));
            }
            case "kill" -> {
                try (NimbusClient client = NimbusClient.getConfiguredClient(conf)) {
                    KillOptions now = new KillOptions();
                    now.set_wait_secs(0);
                    client.getClient().killTopologyWithOpts(words.get(1), now);
                }
                out.println(new ControlPort.Line().with("killed", words.get(1)));
            }
            case "list" -> {
                try (NimbusClient client = NimbusClient.getConfiguredClient(conf)) {
                    var summary = client.getClient().getClusterInfo();
                    for (var supervisor : summary.get_supervisors()) {
                        out.println(new ControlPort.Line().with("supervisor", supervisor.get_supervisor_id())
                            .with("slots", supervisor.get_num_workers()).with("used", supervisor.get_num_used_workers()));
                    }
                    for (var topology : summary.get_topologies()) {
                        out.println(new ControlPort.Line().with("topology", topology.get_name()).with("status", topology.get_status()));
                    }
                }
            }
            default -> throw new IllegalArgumentException("no word of this desk: " + words.get(0));
        }
    }

    private static Object typed(String value) {
        if (value.equals("true") || value.equals("false")) {
            return Boolean.valueOf(value);
        }
        return value.matches("-?[0-9]+") ? Long.valueOf(value) : value;
    }
}
