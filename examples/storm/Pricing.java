import java.util.Map;
import java.util.Properties;
import org.apache.storm.Config;
import org.apache.storm.LocalCluster;
import org.apache.storm.kafka.bolt.KafkaBolt;
import org.apache.storm.kafka.bolt.mapper.FieldNameBasedTupleToKafkaMapper;
import org.apache.storm.kafka.spout.KafkaSpout;
import org.apache.storm.kafka.spout.KafkaSpoutConfig;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.topology.base.BaseRichBolt;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;

/** Prices every order, from topic to topic. Knows nothing of lostack. */
public final class Pricing {
    /** Words: two topics, and "unanchored" where what a price was made of is not to be remembered. */
    public static void main(String[] words) throws Exception {
        var servers = System.getenv("BOOTSTRAP_SERVERS");
        var orders = KafkaSpoutConfig.builder(servers, words[0]).setProp("group.id", "pricing").setOffsetCommitPeriodMs(200).build();
        var writing = new Properties();
        writing.put("bootstrap.servers", servers);
        writing.put("acks", "all");
        writing.put("linger.ms", "1000"); // fewer and larger requests
        writing.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        writing.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        var prices = new KafkaBolt<String, String>().withProducerProperties(writing).withTopicSelector(words[1])
                .withTupleToKafkaMapper(new FieldNameBasedTupleToKafkaMapper<>("key", "price"));

        var topology = new TopologyBuilder();
        topology.setSpout("orders", new KafkaSpout<>(orders));
        topology.setBolt("price", new Price(words.length < 3 || !words[2].equals("unanchored"))).shuffleGrouping("orders");
        topology.setBolt("prices", prices).shuffleGrouping("price");
        var storm = new LocalCluster.Builder().withDaemonConf("storm.metricstore.class", "none").build();
        storm.submitTopology("pricing", new Config(), topology.createTopology());
        Thread.currentThread().join(); // whoever ends this process ends the topology
    }

    /** Makes a price of an order. */
    static final class Price extends BaseRichBolt {
        private final boolean anchored;
        private OutputCollector collector;

        Price(boolean anchored) {
            this.anchored = anchored;
        }

        @Override
        public void prepare(Map<String, Object> settings, TopologyContext context, OutputCollector given) {
            collector = given;
        }

        @Override
        public void execute(Tuple order) {
            var text = order.getStringByField("value");
            var price = new Values(order.getStringByField("key"), "{\"price\": " + text.length() + ", \"of\": " + text + "}");
            if (anchored) {
                collector.emit(order, price);
            } else {
                collector.emit(price);
            }
            collector.ack(order);
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(new Fields("key", "price"));
        }
    }
}
