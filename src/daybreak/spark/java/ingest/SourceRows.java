package daybreak.ingest;

import java.io.IOException;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.types.StructType;
import scala.collection.Iterator;

/** Some of the rows of a source: the files, or the range of offsets, that it was given last. */
abstract class SourceRows {
    /** The columns as the reader has them. */
    abstract StructType columns();

    /** The rows, read in a task on the caller's thread. */
    abstract Iterator<InternalRow> read(TaskContext task);

    /** The rows as an ordinary frame, which executors read. */
    abstract Dataset<?> frame() throws IOException;
}
