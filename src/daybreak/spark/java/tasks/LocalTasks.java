package daybreak.tasks;

import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.spark.TaskContext$;
import org.apache.spark.TaskContextImpl;
import org.apache.spark.TaskKilledException;
import org.apache.spark.executor.TaskMetrics;
import org.apache.spark.memory.MemoryManager;
import org.apache.spark.memory.TaskMemoryManager;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.storage.BlockInfoManager;
import scala.Option$;
import scala.collection.immutable.Map$;
import scala.jdk.javaapi.CollectionConverters;

/** Does work as Spark's executor runs a task, on the thread of the caller. */
public class LocalTasks {
    /** Far from the ids of Spark's own tasks. */
    private static final AtomicLong IDS = new AtomicLong(1L << 40);

    private final MemoryManager memory;
    private final BlockInfoManager blocks;
    private final Constructor<?> context;
    /** What runs now, by tag. */
    private final ConcurrentHashMap<String, TaskContextImpl> running =
        new ConcurrentHashMap<>();

    public LocalTasks() throws Exception {
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

    /** All settings of a session: tasks read them from their own properties. */
    public static Properties settings(SparkSession session) {
        Properties found = new Properties();
        found.putAll(CollectionConverters.asJava(session.sessionState().conf().getAllConfs()));
        return found;
    }

    /**
     * Does work within a task, which has ended when this returns. Raises what the work raises:
     * {@code TaskKilledException} if it was interrupted, all else as the cause of an exception.
     */
    public long run(Work work, String tag, Properties properties) throws Exception {
        long id = IDS.incrementAndGet();
        TaskMemoryManager mine = new TaskMemoryManager(memory, id);
        TaskContextImpl task = context(id, mine, properties);
        blocks.registerTask(id);
        running.put(tag, task);
        TaskContext$.MODULE$.setTaskContext(task);
        Throwable failure = null;
        long result;
        try {
            result = work.run(task);
        } catch (TaskKilledException error) {
            failure = error;
            throw error;
        } catch (Throwable error) {
            failure = error;
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
        return result;
    }

    /** The constructor's parameters differ between versions of Spark. */
    private TaskContextImpl context(long id, TaskMemoryManager mine, Properties properties)
        throws Exception {
        Class<?>[] kinds = context.getParameterTypes();
        Object[] values = new Object[kinds.length];
        for (int i = 0; i < kinds.length; i++) {
            if (kinds[i] == Integer.TYPE) {
                // Before 4.3, how many CPUs it has is the last number, behind the metrics.
                boolean isCpus = i > 0 && kinds[i - 1] == TaskMetrics.class;
                values[i] = Integer.valueOf(isCpus ? 1 : 0);
            } else if (kinds[i] == Long.TYPE) {
                values[i] = Long.valueOf(id);
            } else if (kinds[i] == TaskMemoryManager.class) {
                values[i] = mine;
            } else if (kinds[i] == Properties.class) {
                values[i] = properties;
            } else if (kinds[i] == TaskMetrics.class) {
                values[i] = new TaskMetrics();
            } else if (kinds[i] == scala.math.BigDecimal.class) {
                values[i] = scala.math.BigDecimal$.MODULE$.apply(1);  // CPUs, from 4.3 on
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
