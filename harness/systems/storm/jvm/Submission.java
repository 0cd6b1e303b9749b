package lostack;

import java.util.List;
import java.util.Map;
import org.apache.storm.StormSubmitter;
import org.apache.storm.generated.StormTopology;

/** Hands a topology over to Nimbus. */
public final class Submission {
    private Submission() {
    }

    /** Make the topology that {@code class} names of all that is told, and submit it with the settings that begin with conf. */
    public static void submit(String name, Map<String, String> told) throws Exception {
        Map<String, Object> own = Topology.below(told, "conf.");
        own.replaceAll((setting, value) -> typed((String) value));
        StormTopology topology = (StormTopology) Class.forName(told.get("class")).getDeclaredMethod("of", Map.class).invoke(null, told);
        StormSubmitter.submitTopology(name, own, topology);
    }

    private static Object typed(String value) {
        if (value.equals("true") || value.equals("false")) {
            return Boolean.valueOf(value);
        }
        if (value.startsWith("[")) {
            return List.of(value.substring(1, value.length() - 1).split(","));
        }
        return value.matches("-?[0-9]+") ? Long.valueOf(value) : value;
    }
}
