package lostack;

import io.delta.storage.HDFSLogStore;
import java.io.IOException;
import java.util.Iterator;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

/**
 * Delta's own log store, with a failpoint before and after a version of the table becomes visible.
 *
 * The data files of a commit are written before its version. The thread that writes the version is the one that drives the
 * query's batch. Selected by {@code spark.delta.logStore.file.impl}. See CheckpointFailpoints for the rest.
 */
public class DeltaFailpoints extends HDFSLogStore {
    public DeltaFailpoints(Configuration conf) {
        super(conf);
    }

    public void write(Path path, Iterator actions, Boolean overwrite, Configuration conf) throws IOException {
        boolean version = path.getName().matches("[0-9]{20}\\.json");
        if (version) {
            CheckpointFailpoints.passAt(path, "before-table-commit");
        }
        super.write(path, actions, overwrite, conf);
        if (version) {
            CheckpointFailpoints.passAt(path, "after-table-commit");
        }
    }
}
