package daybreak.ingest;

import daybreak.tasks.Lists;
import java.lang.reflect.Constructor;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.InterruptibleIterator;
import org.apache.spark.TaskContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.streaming.AcceptsLatestSeenOffset;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.SupportsAdmissionControl;
import org.apache.spark.sql.execution.datasources.v2.DataSourceRDD;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.Iterator;
import scala.collection.immutable.Map$;

/** Rows of a micro-batch stream of the second API: Kafka, rates, Python data sources. */
class OffsetRows extends SourceRows {
    private final SparkSession session;
    private final MicroBatchStream stream;
    private final StructType columns;
    private InputPartition[] partitions = new InputPartition[0];
    private PartitionReaderFactory readers;
    /** Whether partitions were planned: a socket connects when they first are. */
    private boolean planned = false;

    /** The folder is where the stream keeps what it has to know at its next start. */
    OffsetRows(SparkSession session, StreamingRelationV2 relation, String folder) {
        this.session = session;
        if (isDisabled(relation) || !(relation.table() instanceof SupportsRead)
            || !relation.table().capabilities().contains(TableCapability.MICRO_BATCH_READ)) {
            throw new Unread(relation.sourceName() + " is read by Spark's first API");
        }
        Scan scan =
            ((SupportsRead) relation.table()).newScanBuilder(relation.extraOptions()).build();
        this.columns = scan.readSchema();
        this.stream = scan.toMicroBatchStream(folder);
    }

    private boolean isDisabled(StreamingRelationV2 relation) {
        String disabled = session.sessionState().conf().disabledV2StreamingMicroBatchReaders();
        return relation.source().isDefined() && Arrays.asList(disabled.split("\\s*,\\s*"))
            .contains(relation.source().get().getClass().getCanonicalName());
    }

    @Override
    StructType columns() {
        return columns;
    }

    String initial() {
        Option<SparkSession> before = enter();
        String found;
        try {
            found = stream.initialOffset().json();
        } finally {
            leave(before);
        }
        return found;
    }

    /** Up to where to read next, within the limits that the user has set; null: nothing is new. */
    String latest(String from) {
        Option<SparkSession> before = enter();
        Offset start;
        Offset end;
        boolean isNew;
        try {
            start = stream.deserializeOffset(from);
            if (stream instanceof SupportsAdmissionControl) {
                SupportsAdmissionControl admission = (SupportsAdmissionControl) stream;
                end = admission.latestOffset(start, admission.getDefaultReadLimit());
            } else {
                end = stream.latestOffset();
            }
            isNew = end != null && !end.equals(start);
            if (!isNew && !planned) {
                // The first micro-batch of a StreamingQuery is planned even if nothing is new.
                planned = true;
                stream.planInputPartitions(start, start);
            }
        } finally {
            leave(before);
        }
        return isNew ? end.json() : null;
    }

    void commit(String offset) {
        Option<SparkSession> before = enter();
        try {
            stream.commit(stream.deserializeOffset(offset));
        } finally {
            leave(before);
        }
    }

    void seen(String offset) {
        if (stream instanceof AcceptsLatestSeenOffset) {
            ((AcceptsLatestSeenOffset) stream).setLatestSeenOffset(
                stream.deserializeOffset(offset));
        }
    }

    void stop() {
        stream.stop();
    }

    /** What is read next. Some sources fetch their rows here. */
    void take(String from, String to) {
        Option<SparkSession> before = enter();
        planned = true;
        try {
            partitions = stream.planInputPartitions(
                stream.deserializeOffset(from), stream.deserializeOffset(to));
            readers = stream.createReaderFactory();
        } finally {
            leave(before);
        }
    }

    /** Sources ask for the active session, which the thread of a StreamingQuery has. */
    private Option<SparkSession> enter() {
        Option<SparkSession> before = SparkSession.getActiveSession();
        SparkSession.setActiveSession(session);
        return before;
    }

    private static void leave(Option<SparkSession> before) {
        if (before.isDefined()) {
            SparkSession.setActiveSession((SparkSession) before.get());
        } else {
            SparkSession.clearActiveSession();
        }
    }

    @Override
    Iterator<InternalRow> read(TaskContext task) {
        return new InterruptibleIterator<>(task, new ReaderRows(readers, partitions, task));
    }

    @Override
    Dataset<?> frame() {
        for (InputPartition partition : partitions) {
            if (readers.supportColumnarReads(partition)) {
                throw new UnsupportedOperationException(
                    "readers of column batches are read by the driver alone");
            }
        }
        return session.internalCreateDataFrame(scan(), columns, false);
    }

    /** What executes a scan: before Spark 4.3 over groups of partitions, from then on over each. */
    @SuppressWarnings("unchecked")  // what reflection returns has no type arguments
    private RDD<InternalRow> scan() {
        Constructor<?> made = DataSourceRDD.class.getConstructors()[0];
        List<Object> items = new ArrayList<>();
        boolean grouped = !made.toGenericString().contains("Option<");
        for (InputPartition partition : partitions) {
            items.add(grouped ? (Object) Lists.seq(Arrays.asList(partition))
                : (Object) Option.apply(partition));
        }
        try {
            return (RDD<InternalRow>) made.newInstance(new Object[] {
                session.sparkContext(), Lists.seq(items), readers, Boolean.FALSE,
                Map$.MODULE$.empty()});
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }
}
