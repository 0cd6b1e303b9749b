package lostack;

import java.io.File;
import java.io.PrintWriter;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.storm.generated.KillOptions;
import org.apache.storm.shade.org.apache.zookeeper.KeeperException;
import org.apache.storm.shade.org.apache.zookeeper.ZooKeeper;
import org.apache.storm.shade.org.apache.zookeeper.server.ZooKeeperServerMain;
import org.apache.storm.utils.NimbusClient;
import org.apache.storm.utils.Utils;

/**
 * ZooKeeper, and beside it in the same JVM who submits and ends topologies: each word of that would be a JVM of its own else.
 *
 * {@code Desk <port for questions> <settings of ZooKeeper>}; what is asked: {@code submit NAME name=value ...}, where
 * {@code conf.} begins the names of the topology's own settings, {@code kill NAME}, {@code list}, and {@code tree PATH}: what
 * nodes of ZooKeeper hold.
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
        ControlPort.answer("127.0.0.1:" + words[0], Desk::reply);
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
                submit(words.get(1), told);
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
            case "tree" -> {
                String server = "127.0.0.1:" + conf.get("storm.zookeeper.port");
                try (ZooKeeper keeper = new ZooKeeper(server, 10000, event -> { })) {
                    tell(keeper, words.get(1), out);
                }
            }
            default -> throw new IllegalArgumentException("no word of this desk: " + words.get(0));
        }
    }

    /** Say what a node of ZooKeeper holds, and those below it; of one that is not there, nothing. */
    private static void tell(ZooKeeper keeper, String path, PrintWriter out) throws KeeperException, InterruptedException {
        try {
            byte[] data = keeper.getData(path, false, null);
            if (data != null && data.length > 0) {
                out.println(new ControlPort.Line().with("path", path).with("data", new String(data, StandardCharsets.UTF_8)));
            }
            for (String child : keeper.getChildren(path, false)) {
                tell(keeper, path + "/" + child, out);
            }
        } catch (KeeperException.NoNodeException gone) {
            // it was not made yet, or is there no more
        }
    }

    /** Submit a topology; one of other classes than ours by a loader that knows nothing but those. */
    private static void submit(String name, Map<String, String> told) throws Exception {
        if (!told.containsKey("jars")) {
            Submission.submit(name, told);
            return;
        }
        List<URL> found = new ArrayList<>();
        for (String path : told.get("jars").split(File.pathSeparator)) {
            found.add(Path.of(path).toUri().toURL());
        }
        found.add(Path.of(System.getenv("STORM_CONF_DIR")).toUri().toURL());
        Thread here = Thread.currentThread();
        ClassLoader before = here.getContextClassLoader();
        try (URLClassLoader apart = new URLClassLoader(found.toArray(new URL[0]), ClassLoader.getPlatformClassLoader())) {
            here.setContextClassLoader(apart);
            apart.loadClass("lostack.Submission").getMethod("submit", String.class, Map.class).invoke(null, name, told);
        } finally {
            here.setContextClassLoader(before);
        }
    }
}
