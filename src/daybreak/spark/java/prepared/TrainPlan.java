package daybreak.prepared;

import daybreak.tasks.Lists;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.io.ObjectStreamClass;
import java.util.Properties;
import org.apache.spark.Dependency;
import org.apache.spark.Partition;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.StructType;

/** A physical plan over trains as a task of one stage: what executors get, serialized. */
public final class TrainPlan {
    final StructType schema;
    final Properties settings;
    private final byte[] task;
    /** As Spark's executors do, each user has a copy: expressions and functions keep state. */
    RDD<InternalRow> rdd;
    Partition[] partitions;
    /** Holds on to the broadcasts: Spark removes one as soon as nobody holds the original. */
    private final RDD<InternalRow> original;

    public TrainPlan(RDD<InternalRow> original, StructType schema, Properties settings)
        throws Exception {
        this.original = original;
        this.schema = schema;
        this.settings = settings;
        settle(original);
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        ObjectOutputStream out = new ObjectOutputStream(bytes);
        out.writeObject(new Object[] {original, original.partitions()});
        out.close();
        this.task = bytes.toByteArray();
        renew();
    }

    /** What an RDD depends on is serialized only if it has been asked for. */
    private static void settle(RDD<?> rdd) {
        for (Dependency<?> dependency : Lists.list(rdd.dependencies())) {
            settle(dependency.rdd());
        }
    }

    private TrainPlan(TrainPlan other) throws Exception {
        this.original = other.original;
        this.schema = other.schema;
        this.settings = other.settings;
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
    @SuppressWarnings("unchecked")  // it is what was written
    void renew() throws Exception {
        Object[] read = (Object[]) new Loading(task).readObject();
        this.rdd = (RDD<InternalRow>) read[0];
        this.partitions = (Partition[]) read[1];
    }
}

/** Reads a task with our classes, which Spark's own class loader does not know. */
class Loading extends ObjectInputStream {
    Loading(byte[] bytes) throws IOException {
        super(new ByteArrayInputStream(bytes));
    }

    @Override
    protected Class<?> resolveClass(ObjectStreamClass wanted)
        throws IOException, ClassNotFoundException {
        try {
            return Class.forName(wanted.getName(), false, Loading.class.getClassLoader());
        } catch (ClassNotFoundException error) {
            return super.resolveClass(wanted); // primitive types
        }
    }
}
