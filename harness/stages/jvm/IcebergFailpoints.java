package lostack;

import java.io.IOException;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;

/**
 * Hadoop's own local file system, with a failpoint before and after a version of an Iceberg table becomes visible.
 *
 * A Hadoop catalog commits by a rename to {@code metadata/vN.metadata.json}; data files, manifests and the new metadata are
 * written before it. The thread that renames is the one that drives the query's batch. Selected by
 * {@code spark.hadoop.fs.file.impl}. See CheckpointFailpoints for the rest.
 */
public class IcebergFailpoints extends LocalFileSystem {
    public boolean rename(Path source, Path target) throws IOException {
        boolean version = target.getName().matches("v[0-9]+\\.metadata\\.json");
        if (version) {
            CheckpointFailpoints.passAt(target, "before-table-commit");
        }
        boolean done = super.rename(source, target);
        if (version) {
            CheckpointFailpoints.passAt(target, "after-table-commit");
        }
        return done;
    }
}
