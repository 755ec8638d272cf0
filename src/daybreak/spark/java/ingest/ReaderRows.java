package daybreak.ingest;

import java.io.IOException;
import java.util.NoSuchElementException;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.util.TaskCompletionListener;
import scala.collection.AbstractIterator;
import scala.jdk.javaapi.CollectionConverters;

/** The rows of input partitions, one partition after the other. Closed at the end of its task. */
class ReaderRows extends AbstractIterator<InternalRow> implements TaskCompletionListener {
    private final PartitionReaderFactory readers;
    private final InputPartition[] partitions;
    private int opened = 0;
    private PartitionReader<?> reader;
    private boolean columnar;
    /** The rest of a batch of columns, if the reader gives such. */
    private scala.collection.Iterator<InternalRow> batch;
    private boolean ready = false;

    ReaderRows(PartitionReaderFactory readers, InputPartition[] partitions, TaskContext task) {
        this.readers = readers;
        this.partitions = partitions;
        task.addTaskCompletionListener((TaskCompletionListener) this);
    }

    @Override
    public boolean hasNext() {
        try {
            while (!ready && (reader != null || opened < partitions.length)) {
                advance();
            }
        } catch (IOException error) {
            throw new RuntimeException(error);
        }
        return ready;
    }

    /** One step: a row, a batch of columns, or the next partition. */
    private void advance() throws IOException {
        if (batch != null && batch.hasNext()) {
            ready = true;
        } else if (reader == null) {
            InputPartition partition = partitions[opened++];
            columnar = readers.supportColumnarReads(partition);
            reader = columnar ? (PartitionReader<?>) readers.createColumnarReader(partition)
                : (PartitionReader<?>) readers.createReader(partition);
        } else if (!reader.next()) {
            close();
        } else if (columnar) {
            batch = CollectionConverters.asScala(((ColumnarBatch) reader.get()).rowIterator());
        } else {
            ready = true;
        }
    }

    @Override
    public InternalRow next() {
        if (!hasNext()) {
            throw new NoSuchElementException();
        }
        ready = false;
        return (InternalRow) (batch != null ? batch.next() : reader.get());
    }

    private void close() throws IOException {
        PartitionReader<?> done = reader;
        reader = null;
        batch = null;
        if (done != null) {
            done.close();
        }
    }

    @Override
    public void onTaskCompletion(TaskContext task) {
        try {
            close();
        } catch (IOException error) {
            throw new RuntimeException(error);
        }
    }
}
