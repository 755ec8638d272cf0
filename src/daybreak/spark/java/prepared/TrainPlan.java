// Compiled in the driver's JVM by the compiler that Spark brings along for its own generated code
// (Janino: no generics to speak of, no lambdas). Python makes one call per train: Runs.run.
package daybreak.prepared;

import java.io.BufferedOutputStream;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.io.ObjectStreamClass;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.NoSuchElementException;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.Dependency;
import org.apache.spark.InterruptibleIterator;
import org.apache.spark.Partition;
import org.apache.spark.SparkContext;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskContext$;
import org.apache.spark.TaskContextImpl;
import org.apache.spark.TaskKilledException;
import org.apache.spark.executor.TaskMetrics;
import org.apache.spark.memory.MemoryManager;
import org.apache.spark.memory.TaskMemoryManager;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.arrow.ArrowConverters$;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.storage.BlockInfoManager;
import org.apache.spark.util.TaskCompletionListener;
import scala.Option;
import scala.Option$;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;
import scala.collection.immutable.Map$;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;
import scala.reflect.ClassTag$;

/** The rows of one stream: whatever the file of the present train holds. A single partition. */
public class Train extends RDD {
    /** Followed by the number of a leaf: the file with its rows. */
    static final String FILE = "daybreak.train.";

    private final int number;
    private final StructType columns;

    public Train(SparkContext context, int number, StructType columns) {
        super(context, (Seq) Nil$.MODULE$, ClassTag$.MODULE$.apply(InternalRow.class));
        this.number = number;
        this.columns = columns;
    }

    public int number() {
        return number;
    }

    public Partition[] getPartitions() {
        return new Partition[] {new Only()};
    }

    public Iterator compute(Partition partition, TaskContext context) {
        try {
            FileInputStream in = new FileInputStream(context.getLocalProperty(FILE + number));
            context.addTaskCompletionListener((TaskCompletionListener) new Closing(in));
            ArrowConverters$ arrow = ArrowConverters$.MODULE$;
            Iterator rows = arrow.fromBatchIterator(
                arrow.getBatchesFromStream(in.getChannel()), columns, "UTC", true, false, context);
            return new InterruptibleIterator(context, rows);
        } catch (IOException error) {
            throw new RuntimeException(error);
        }
    }
}

class Only implements Partition {
    public int index() {
        return 0;
    }

    public int hashCode() {
        return 0;
    }

    public boolean equals(Object other) {
        return other instanceof Only;
    }

    // What Scala's compiler would add to a class that mixes in the trait.
    public boolean org$apache$spark$Partition$$super$equals(Object other) {
        return other instanceof Only;
    }
}

class Closing implements TaskCompletionListener {
    private final FileInputStream in;

    Closing(FileInputStream in) {
        this.in = in;
    }

    public void onTaskCompletion(TaskContext context) {
        try {
            in.close();
        } catch (IOException error) {
            throw new RuntimeException(error);
        }
    }
}

/** A physical plan over trains as a task of one stage: what executors get, serialized. */
public class TrainPlan {
    final StructType schema;
    final Properties settings;
    private final byte[] task;
    /** As Spark's executors do, each user has a copy: expressions and functions keep state. */
    RDD rdd;
    Partition[] partitions;
    /** Holds on to the broadcasts: Spark removes one as soon as nobody holds the original. */
    private final RDD original;
    /** Files of static tables as they were when they were read. */
    private final FileStatus[] files;
    private final Configuration hadoop;

    public TrainPlan(
        RDD original, StructType schema, Properties settings, FileStatus[] files,
        Configuration hadoop
    ) throws Exception {
        this.original = original;
        this.schema = schema;
        this.settings = settings;
        this.files = files;
        this.hadoop = hadoop;
        settle(original);
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        ObjectOutputStream out = new ObjectOutputStream(bytes);
        out.writeObject(new Object[] {original, original.partitions()});
        out.close();
        this.task = bytes.toByteArray();
        renew();
    }

    /** What an RDD depends on is serialized only if it has been asked for. */
    private static void settle(RDD rdd) {
        Iterator dependencies = rdd.dependencies().iterator();
        while (dependencies.hasNext()) {
            settle(((Dependency) dependencies.next()).rdd());
        }
    }

    private TrainPlan(TrainPlan other) throws Exception {
        this.original = other.original;
        this.schema = other.schema;
        this.settings = other.settings;
        this.files = other.files;
        this.hadoop = other.hadoop;
        this.task = other.task;
        renew();
    }

    /** For another thread. */
    public TrainPlan copy() throws Exception {
        return new TrainPlan(this);
    }

    public int size() {
        return task.length;
    }

    /** After a failure: what was computed halfway may have left something behind. */
    void renew() throws Exception {
        Object[] read = (Object[]) new Loading(task).readObject();
        this.rdd = (RDD) read[0];
        this.partitions = (Partition[]) read[1];
    }

    boolean isStale() throws IOException {
        for (int i = 0; i < files.length; i++) {
            Path path = files[i].getPath();
            FileStatus now = path.getFileSystem(hadoop).getFileStatus(path);
            if (now.getModificationTime() != files[i].getModificationTime()
                || now.getLen() != files[i].getLen()) {
                return true;
            }
        }
        return false;
    }
}

class Loading extends ObjectInputStream {
    Loading(byte[] bytes) throws IOException {
        super(new ByteArrayInputStream(bytes));
    }

    protected Class resolveClass(ObjectStreamClass wanted)
        throws IOException, ClassNotFoundException {
        try {
            return Class.forName(wanted.getName(), false, Loading.class.getClassLoader());
        } catch (ClassNotFoundException error) {
            return super.resolveClass(wanted); // primitive types
        }
    }
}

/** Rows that some query keeps: a bit of one of the first columns is set. Notes which ones. */
class Kept extends AbstractIterator {
    private final Iterator rows;
    private final int masks;
    private InternalRow next;
    private int read = 0;
    private int count = 0;
    private int[] places = new int[1 << 12];

    Kept(Iterator rows, int masks) {
        this.rows = rows;
        this.masks = masks;
    }

    public boolean hasNext() {
        while (next == null && rows.hasNext()) {
            InternalRow row = (InternalRow) rows.next();
            for (int i = 0; i < masks && next == null; i++) {
                next = row.getLong(i) != 0L ? row : null;
            }
            read++;
        }
        return next != null;
    }

    public Object next() {
        if (!hasNext()) {
            throw new NoSuchElementException();
        }
        if (count == places.length) {
            places = Arrays.copyOf(places, 2 * count);
        }
        places[count++] = read - 1;
        Object row = next;
        next = null;
        return row;
    }

    /** The places of these rows among all, in the order of bytes that Python reads. */
    byte[] written() {
        ByteBuffer bytes = ByteBuffer.allocate(4 * count).order(ByteOrder.LITTLE_ENDIAN);
        bytes.asIntBuffer().put(places, 0, count);
        return bytes.array();
    }
}

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
    private final Constructor context;
    /** What runs now, by tag. */
    private final ConcurrentHashMap running = new ConcurrentHashMap();

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
        try {
            return write(plan, task, folder, masks, mostBytes);
        } catch (TaskKilledException error) {
            failure = error;
            plan.renew();
            return INTERRUPTED;
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
    }

    private long write(
        TrainPlan plan, TaskContextImpl task, String folder, int masks, long mostBytes
    ) throws Exception {
        if (masks > 0 && plan.partitions.length != 1) {
            throw new IllegalStateException("places count within a partition, and there are several");
        }
        DataOutputStream out = new DataOutputStream(
            new BufferedOutputStream(new FileOutputStream(folder + "/out"), 1 << 16));
        FileOutputStream places = masks > 0 ? new FileOutputStream(folder + "/places") : null;
        try {
            for (int i = 0; i < plan.partitions.length; i++) {
                Iterator rows = new InterruptibleIterator(
                    task, plan.rdd.iterator(plan.partitions[i], task));
                Kept kept = masks > 0 ? new Kept(rows, masks) : null;
                Iterator batches = ArrowConverters$.MODULE$.toBatchWithSchemaIterator(
                    kept != null ? kept : rows, plan.schema, 1L << 17, 1L << 24, "UTC", true, false);
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
        Class[] kinds = context.getParameterTypes();
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
