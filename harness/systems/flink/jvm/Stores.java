package lostack.flink;

import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.Executor;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.JobStatus;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.JobManagerOptions;
import org.apache.flink.configuration.RestOptions;
import org.apache.flink.core.execution.RecoveryClaimMode;
import org.apache.flink.runtime.checkpoint.CheckpointIDCounter;
import org.apache.flink.runtime.checkpoint.CheckpointRecoveryFactory;
import org.apache.flink.runtime.checkpoint.CheckpointsCleaner;
import org.apache.flink.runtime.checkpoint.CompletedCheckpoint;
import org.apache.flink.runtime.checkpoint.CompletedCheckpointStore;
import org.apache.flink.runtime.highavailability.HighAvailabilityServices;
import org.apache.flink.runtime.highavailability.HighAvailabilityServicesFactory;
import org.apache.flink.runtime.highavailability.nonha.standalone.StandaloneHaServices;
import org.apache.flink.runtime.state.SharedStateRegistry;
import org.apache.flink.runtime.state.SharedStateRegistryFactory;

/**
 * A JobManager's own services as they are without high availability, with a failpoint before and behind the store of completed
 * checkpoints.
 *
 * All TaskManagers have acknowledged a checkpoint that comes here, and its metadata are written. In the store it is complete;
 * who took part learns of that afterwards. Selected by {@code high-availability.type}. A failpoint is armed by a file
 * {@code <job>.armed} of properties in the folder {@code lostack.failpoints}.
 */
public final class Stores extends StandaloneHaServices {
    private Stores(String resourceManager, String dispatcher, String rest) {
        super(resourceManager, dispatcher, rest);
    }

    /** What Flink makes them by. */
    public static final class Factory implements HighAvailabilityServicesFactory {
        @Override
        public HighAvailabilityServices createHAServices(Configuration configuration, Executor executor) {
            String address = "pekko.tcp://flink@" + configuration.get(JobManagerOptions.ADDRESS) + ":"
                + configuration.get(JobManagerOptions.PORT) + "/user/rpc/";
            String rest = "http://" + configuration.get(RestOptions.ADDRESS) + ":" + configuration.get(RestOptions.PORT);
            return new Stores(address + "resourcemanager_*", address + "dispatcher_*", rest);
        }
    }

    @Override
    public CheckpointRecoveryFactory getCheckpointRecoveryFactory() {
        CheckpointRecoveryFactory inner = super.getCheckpointRecoveryFactory();
        return new CheckpointRecoveryFactory() {
            @Override
            public CompletedCheckpointStore createRecoveredCompletedCheckpointStore(
                    JobID job, int retained, SharedStateRegistryFactory registries, Executor executor, RecoveryClaimMode mode)
                    throws Exception {
                return new Store(job, inner.createRecoveredCompletedCheckpointStore(job, retained, registries, executor, mode));
            }

            @Override
            public CheckpointIDCounter createCheckpointIDCounter(JobID job) throws Exception {
                return inner.createCheckpointIDCounter(job);
            }
        };
    }

    /** The store of one job. */
    private static final class Store implements CompletedCheckpointStore {
        private final JobID job;
        private final CompletedCheckpointStore inner;

        Store(JobID job, CompletedCheckpointStore inner) {
            this.job = job;
            this.inner = inner;
        }

        @Override
        public CompletedCheckpoint addCheckpointAndSubsumeOldestOne(
                CompletedCheckpoint checkpoint, CheckpointsCleaner cleaner, Runnable after) throws Exception {
            pass("before-checkpoint-stored", checkpoint.getCheckpointID());
            CompletedCheckpoint oldest = inner.addCheckpointAndSubsumeOldestOne(checkpoint, cleaner, after);
            pass("after-checkpoint-stored", checkpoint.getCheckpointID());
            return oldest;
        }

        /** Where it is armed here: refuse the checkpoint, or say so and stand still until somebody ends this process. */
        private void pass(String name, long number) throws IOException {
            Path armed = Paths.get(System.getProperty("lostack.failpoints", ""), job + ".armed");
            Properties told = new Properties();
            try (java.io.Reader reader = Files.newBufferedReader(armed)) {
                told.load(reader);
            } catch (NoSuchFileException none) {
                return;
            }
            if (!name.equals(told.getProperty("name"))) {
                return;
            }
            Files.delete(armed);
            if (told.getProperty("action").equals("fail")) {
                throw new IOException("the store is told to refuse checkpoint " + number);
            }
            String pid = ManagementFactory.getRuntimeMXBean().getName().split("@")[0];
            String line = "{\"t\":" + System.nanoTime() + ",\"w\":" + System.currentTimeMillis() * 1000000L + ",\"cell\":\""
                + told.getProperty("cell") + "\",\"by\":\"job-manager\",\"event\":\"failpoint\",\"name\":\"" + name
                + "\",\"record\":\"" + told.getProperty("record") + "\",\"hit\":1,\"action\":\"hold\",\"pid\":" + pid
                + ",\"batch\":" + number + "}\n";
            Files.write(Paths.get(told.getProperty("history")), line.getBytes(StandardCharsets.UTF_8),
                StandardOpenOption.CREATE, StandardOpenOption.APPEND, StandardOpenOption.WRITE);
            while (true) {
                try {
                    Thread.sleep(1000);
                } catch (InterruptedException stopped) {
                    return;
                }
            }
        }

        @Override
        public void shutdown(JobStatus status, CheckpointsCleaner cleaner) throws Exception {
            inner.shutdown(status, cleaner);
        }

        @Override
        public List<CompletedCheckpoint> getAllCheckpoints() {
            return inner.getAllCheckpoints();
        }

        @Override
        public int getNumberOfRetainedCheckpoints() {
            return inner.getNumberOfRetainedCheckpoints();
        }

        @Override
        public int getMaxNumberOfRetainedCheckpoints() {
            return inner.getMaxNumberOfRetainedCheckpoints();
        }

        @Override
        public boolean requiresExternalizedCheckpoints() {
            return inner.requiresExternalizedCheckpoints();
        }

        @Override
        public SharedStateRegistry getSharedStateRegistry() {
            return inner.getSharedStateRegistry();
        }
    }
}
