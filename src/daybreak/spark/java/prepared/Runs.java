package daybreak.prepared;

import java.io.BufferedOutputStream;
import java.io.DataOutputStream;
import java.io.FileOutputStream;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.spark.InterruptibleIterator;
import org.apache.spark.Partition;
import org.apache.spark.TaskContext$;
import org.apache.spark.TaskContextImpl;
import org.apache.spark.TaskKilledException;
import org.apache.spark.executor.TaskMetrics;
import org.apache.spark.memory.MemoryManager;
import org.apache.spark.memory.TaskMemoryManager;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.arrow.ArrowConverters$;
import org.apache.spark.storage.BlockInfoManager;
import scala.Option$;
import scala.collection.Iterator;
import scala.collection.immutable.Map$;

/** Runs plans as Spark's executor runs a task, on the thread of the caller. */
public class Runs {
    /** Results of a run that are no number of rows. */
    static final long INTERRUPTED = -1L;
    static final long STALE = -2L;
    static final long TOO_LARGE = -3L;

    /** Far from the ids of Spark's own tasks. */
    private static final AtomicLong IDS = new AtomicLong(1L << 40);

    private final MemoryManager memory;
    private final BlockInfoManager blocks;
    private final Constructor<?> context;
    /** What runs now, by tag. */
    private final ConcurrentHashMap<String, TaskContextImpl> running =
        new ConcurrentHashMap<>();

    public Runs() throws Exception {
        // SparkEnv has methods whose types are not on the class path, so it is read field by field.
        Object module = field("org.apache.spark.SparkEnv$", "MODULE$", null);
        Object env = field("org.apache.spark.SparkEnv$", "env", module);
        this.memory = (MemoryManager) field("org.apache.spark.SparkEnv", "_memoryManager", env);
        Object manager = field("org.apache.spark.SparkEnv", "blockManager", env);
        this.blocks = (BlockInfoManager) field(
            "org.apache.spark.storage.BlockManager", "blockInfoManager", manager);
        this.context = TaskContextImpl.class.getConstructors()[0];
        if (memory == null || blocks == null) {
            throw new IllegalStateException("no memory manager, or no block manager");
        }
    }

    private static Object field(String owner, String name, Object of) throws Exception {
        Field found = Class.forName(owner).getDeclaredField(name);
        found.setAccessible(true);
        return found.get(of);
    }

    /**
     * Reads the trains in a folder and writes the result there, as Arrow streams behind their
     * lengths. Returns the number of bytes, or why there is no result. If its first columns are
     * masks, rows that nobody keeps are left out, and the places of the others written beside it.
     */
    public long run(
        TrainPlan plan, String tag, String folder, int leaves, int masks, long mostBytes
    ) throws Exception {
        if (plan.isStale()) {
            return STALE;
        }
        long id = IDS.incrementAndGet();
        TaskMemoryManager mine = new TaskMemoryManager(memory, id);
        Properties properties = new Properties(plan.settings);
        for (int i = 0; i < leaves; i++) {
            properties.setProperty(Train.FILE + i, folder + "/in" + i);
        }
        TaskContextImpl task = context(id, mine, properties);
        blocks.registerTask(id);
        running.put(tag, task);
        TaskContext$.MODULE$.setTaskContext(task);
        Throwable failure = null;
        long written;
        try {
            written = write(plan, task, folder, masks, mostBytes);
        } catch (TaskKilledException error) {
            failure = error;
            plan.renew();
            written = INTERRUPTED;
        } catch (Throwable error) {
            failure = error;
            plan.renew();
            throw new Exception(error);
        } finally {
            running.remove(tag, task);
            try {
                if (failure != null) {
                    task.markTaskFailed(failure);
                }
                task.markTaskCompleted(Option$.MODULE$.apply(failure));
            } finally {
                blocks.releaseAllLocksForTask(id);
                mine.cleanUpAllAllocatedMemory();
                TaskContext$.MODULE$.unset();
            }
        }
        return written;
    }

    private long write(
        TrainPlan plan, TaskContextImpl task, String folder, int masks, long mostBytes
    ) throws Exception {
        if (masks > 0 && plan.partitions.length != 1) {
            throw new IllegalStateException(
                "places count within a partition, and there are several");
        }
        DataOutputStream out = new DataOutputStream(
            new BufferedOutputStream(new FileOutputStream(folder + "/out"), 1 << 16));
        FileOutputStream places = masks > 0 ? new FileOutputStream(folder + "/places") : null;
        try {
            for (Partition partition : plan.partitions) {
                Iterator<InternalRow> rows = new InterruptibleIterator<>(
                    task, plan.rdd.iterator(partition, task));
                Kept kept = masks > 0 ? new Kept(rows, masks) : null;
                Iterator<byte[]> batches = ArrowConverters$.MODULE$.toBatchWithSchemaIterator(
                    kept != null ? kept : rows, plan.schema, 1L << 17, 1L << 24, "UTC", true,
                    false);
                while (batches.hasNext()) {
                    byte[] batch = (byte[]) batches.next();
                    if (out.size() + 4L + batch.length > mostBytes) {
                        return TOO_LARGE;
                    }
                    out.writeInt(batch.length);
                    out.write(batch);
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

    /** The constructor's parameters differ between versions of Spark. */
    private TaskContextImpl context(long id, TaskMemoryManager mine, Properties properties)
        throws Exception {
        Class<?>[] kinds = context.getParameterTypes();
        Object[] values = new Object[kinds.length];
        for (int i = 0; i < kinds.length; i++) {
            if (kinds[i] == Integer.TYPE) {
                values[i] = Integer.valueOf(0);
            } else if (kinds[i] == Long.TYPE) {
                values[i] = Long.valueOf(id);
            } else if (kinds[i] == TaskMemoryManager.class) {
                values[i] = mine;
            } else if (kinds[i] == Properties.class) {
                values[i] = properties;
            } else if (kinds[i] == TaskMetrics.class) {
                values[i] = new TaskMetrics();
            } else if (kinds[i] == scala.collection.immutable.Map.class) {
                values[i] = Map$.MODULE$.empty();
            }
        }
        return (TaskContextImpl) context.newInstance(values);
    }

    /** Ends what runs under a tag before its next row. */
    public void interrupt(String tag) {
        TaskContextImpl task = (TaskContextImpl) running.get(tag);
        if (task != null) {
            task.markInterrupted("cancelled");
        }
    }

    /** Execution memory that is taken now, by tasks of whatever kind. */
    public long memoryUsed() {
        return memory.executionMemoryUsed();
    }
}
