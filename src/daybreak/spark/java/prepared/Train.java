package daybreak.prepared;

import daybreak.tasks.Lists;
import daybreak.tasks.Only;
import java.io.FileInputStream;
import java.io.IOException;
import org.apache.spark.Dependency;
import org.apache.spark.InterruptibleIterator;
import org.apache.spark.Partition;
import org.apache.spark.SparkContext;
import org.apache.spark.TaskContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.arrow.ArrowConverters$;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.TaskCompletionListener;
import scala.collection.Iterator;
import scala.reflect.ClassTag$;

/** The rows of one stream: whatever the file of the present train holds. A single partition. */
public class Train extends RDD<InternalRow> {
    private static final long serialVersionUID = 1L;

    /** Followed by the number of a leaf: the file with its rows. */
    static final String FILE = "daybreak.train.";

    private final int number;
    private final StructType columns;

    public Train(SparkContext context, int number, StructType columns) {
        super(
            context, Lists.<Dependency<?>>none(), ClassTag$.MODULE$.apply(InternalRow.class));
        this.number = number;
        this.columns = columns;
    }

    public int number() {
        return number;
    }

    StructType columns() {
        return columns;
    }

    @Override
    public Partition[] getPartitions() {
        return new Partition[] {new Only()};
    }

    @Override
    public Iterator<InternalRow> compute(Partition partition, TaskContext context) {
        try {
            FileInputStream in = new FileInputStream(context.getLocalProperty(FILE + number));
            context.addTaskCompletionListener((TaskCompletionListener) new Closing(in));
            ArrowConverters$ arrow = ArrowConverters$.MODULE$;
            Iterator<InternalRow> rows = arrow.fromBatchIterator(
                arrow.getBatchesFromStream(in.getChannel()), columns, "UTC", true, false, context);
            return new InterruptibleIterator<>(context, rows);
        } catch (IOException error) {
            throw new RuntimeException(error);
        }
    }
}

/** Closes the file of a train when the task ends. */
class Closing implements TaskCompletionListener {
    private final FileInputStream in;

    Closing(FileInputStream in) {
        this.in = in;
    }

    @Override
    public void onTaskCompletion(TaskContext context) {
        try {
            in.close();
        } catch (IOException error) {
            throw new RuntimeException(error);
        }
    }
}
