package daybreak.prepared;

import daybreak.tasks.ArrowFile;
import daybreak.tasks.LocalTasks;
import daybreak.tasks.Work;
import java.io.FileOutputStream;
import java.util.Properties;
import org.apache.spark.InterruptibleIterator;
import org.apache.spark.Partition;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskKilledException;
import org.apache.spark.sql.catalyst.InternalRow;
import scala.collection.Iterator;

/** Runs plans as tasks on the thread of the caller. */
public class Runs {
    /** Results of a run that are no number of rows. */
    static final long INTERRUPTED = -1L;
    static final long TOO_LARGE = -2L;

    private final LocalTasks tasks;

    public Runs() throws Exception {
        this.tasks = new LocalTasks();
    }

    /**
     * Reads the trains in a folder and writes the result there, as Arrow streams behind their
     * lengths. Returns the number of bytes, or why there is no result. If its first columns are
     * masks, rows that nobody keeps are left out, and the places of the others written beside it.
     */
    public long run(
        TrainPlan plan, String tag, String folder, int leaves, int masks, long mostBytes
    ) throws Exception {
        Properties properties = new Properties(plan.settings);
        for (int i = 0; i < leaves; i++) {
            properties.setProperty(Train.FILE + i, folder + "/in" + i);
        }
        try {
            return tasks.run(new Run(plan, folder, masks, mostBytes), tag, properties);
        } catch (TaskKilledException error) {
            plan.renew();
            return INTERRUPTED;
        } catch (Exception error) {
            plan.renew();
            throw error;
        }
    }

    /** Ends what runs under a tag before its next row. */
    public void interrupt(String tag) {
        tasks.interrupt(tag);
    }

    /** Execution memory that is taken now, by tasks of whatever kind. */
    public long memoryUsed() {
        return tasks.memoryUsed();
    }
}

/** One run of a plan. */
class Run implements Work {
    private final TrainPlan plan;
    private final String folder;
    private final int masks;
    private final long mostBytes;

    Run(TrainPlan plan, String folder, int masks, long mostBytes) {
        this.plan = plan;
        this.folder = folder;
        this.masks = masks;
        this.mostBytes = mostBytes;
    }

    @Override
    public long run(TaskContext task) throws Exception {
        if (masks > 0 && plan.partitions.length != 1) {
            throw new IllegalStateException(
                "places count within a partition, and there are several");
        }
        ArrowFile out = new ArrowFile(folder + "/out", plan.schema, false, mostBytes);
        FileOutputStream places = masks > 0 ? new FileOutputStream(folder + "/places") : null;
        try {
            for (Partition partition : plan.partitions) {
                Iterator<InternalRow> rows = new InterruptibleIterator<>(
                    task, plan.rdd.iterator(partition, task));
                Kept kept = masks > 0 ? new Kept(rows, masks) : null;
                if (!out.write(kept != null ? kept : rows)) {
                    return Runs.TOO_LARGE;
                }
                if (kept != null) {
                    places.write(kept.written());
                }
            }
            return out.size();
        } finally {
            out.close();
            if (places != null) {
                places.close();
            }
        }
    }
}
