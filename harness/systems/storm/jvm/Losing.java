package lostack;

import com.esotericsoftware.kryo.io.Input;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.storm.grouping.Load;
import org.apache.storm.messaging.ConnectionWithStatus;
import org.apache.storm.messaging.IConnection;
import org.apache.storm.messaging.TaskMessage;
import org.apache.storm.messaging.netty.BackPressureStatus;
import org.apache.storm.messaging.netty.Context;
import org.apache.storm.metrics2.StormMetricRegistry;

/**
 * Storm's own transport between workers, in which one tuple can be lost: the one by which the bolt that writes tells the acker
 * that a record is done. Selected by {@code storm.messaging.transport}, in a topology whose acker is alone in its worker.
 */
public final class Losing extends Context {
    /** Tasks count from 1 in the order of their components: {@code __acker}, {@code sink}, ... */
    private static final int ACKER = 1;
    private static final int SINK = 2;
    private static final String NAME = "ack-sent";
    /** The record whose result was written last; with one tree at a time, it is the one that is acknowledged next. */
    static volatile String written = "";
    private Map<String, Object> conf;

    @Override
    public void prepare(Map<String, Object> told, StormMetricRegistry registry) {
        conf = told;
        super.prepare(told, registry);
    }

    @Override
    public IConnection connect(String topology, String host, int port, AtomicBoolean[] remote) {
        return new Connection((ConnectionWithStatus) super.connect(topology, host, port, remote));
    }

    /** To one other worker. */
    private final class Connection extends ConnectionWithStatus {
        private final ConnectionWithStatus inner;

        Connection(ConnectionWithStatus inner) {
            this.inner = inner;
        }

        @Override
        public void send(Iterator<TaskMessage> messages) {
            List<TaskMessage> kept = new ArrayList<>();
            messages.forEachRemaining(message -> {
                if (!isAck(message) || !Failpoint.hit(conf, NAME, written)) {
                    kept.add(message);
                }
            });
            inner.send(kept.iterator());
        }

        /** A tuple begins with the task that it comes from. */
        private boolean isAck(TaskMessage message) {
            return message.task() == ACKER && new Input(message.message()).readInt(true) == SINK;
        }

        @Override
        public Status status() {
            return inner.status();
        }

        @Override
        public void sendLoadMetrics(Map<Integer, Double> load) {
            inner.sendLoadMetrics(load);
        }

        @Override
        public void sendBackPressureStatus(BackPressureStatus status) {
            inner.sendBackPressureStatus(status);
        }

        @Override
        public Map<Integer, Load> getLoad(Collection<Integer> tasks) {
            return inner.getLoad(tasks);
        }

        @Override
        public int getPort() {
            return inner.getPort();
        }

        @Override
        public void close() {
            inner.close();
        }
    }
}
