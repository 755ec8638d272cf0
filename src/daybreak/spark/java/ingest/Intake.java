package daybreak.ingest;

import daybreak.tasks.ArrowFile;
import daybreak.tasks.LocalTasks;
import daybreak.tasks.Work;
import java.io.IOException;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskKilledException;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.streaming.runtime.StreamingRelation;
import org.apache.spark.sql.types.StructType;
import scala.collection.Iterator;

/**
 * Reads the rows of one stream in the driver: Spark's own readers, called on the caller's thread as
 * a task calls them. One thread reads; any may interrupt it.
 */
public class Intake implements Work {
    /** Results of a read that are no number of bytes. */
    private static final long INTERRUPTED = -1L;
    private static final long TOO_LARGE = -2L;

    private static final AtomicLong NUMBERS = new AtomicLong(0L);

    private final LocalTasks tasks;
    private final String tag = "intake-" + NUMBERS.incrementAndGet();
    private final SparkSession session;
    private final StructType schema;
    private final SourcePlan plan;
    private final FileRows files;
    private final OffsetRows offsets;
    private final SourceRows source;
    private final Properties settings;
    private final boolean largeTypes;
    /** The plan above the source's rows; null if there is none. */
    private RDD<InternalRow> compiled;
    private String path;
    private long mostBytes;

    /** Raises {@code Unread} for what only a StreamingQuery can read. */
    public Intake(LocalTasks tasks, Dataset<?> frame, String folder) throws Exception {
        this.tasks = tasks;
        this.session = (SparkSession) frame.sparkSession();
        this.schema = frame.schema();
        this.plan = new SourcePlan(session, frame.queryExecution().analyzed());
        LogicalPlan leaf = plan.leaf();
        boolean isFiles = leaf instanceof StreamingRelation;
        if (!isFiles && !(leaf instanceof StreamingRelationV2)) {
            throw new Unread("it is read by " + leaf.nodeName());
        }
        this.files =
            isFiles ? new FileRows(session, ((StreamingRelation) leaf).dataSource()) : null;
        this.offsets =
            isFiles ? null : new OffsetRows(session, (StreamingRelationV2) leaf, folder);
        this.source = isFiles ? (SourceRows) files : (SourceRows) offsets;
        this.settings = LocalTasks.settings(session);
        // Some readers name them in their messages.
        settings.setProperty("sql.streaming.queryId", "daybreak");
        settings.setProperty("streaming.sql.batchId", "0");
        this.largeTypes = session.sessionState().conf().arrowUseLargeVarTypes();
        try {
            if (source.columns().length() != leaf.output().size()) {
                throw new Unread("it asks for columns that its reader does not have");
            }
            this.compiled = plan.isLeaf() ? null : plan.compiled(source);
        } catch (RuntimeException error) {
            stop();
            throw error;
        }
    }

    /** "files": it is given files to read; "offsets": it says itself what is new. */
    public String way() {
        return files != null ? "files" : "offsets";
    }

    /** Reads files into a file of Arrow streams; returns its bytes, or why it is of no use. */
    public long readFiles(String lines, String path, long mostBytes) throws Exception {
        files.take(lines);
        files.open();
        return read(path, mostBytes);
    }

    /** Reads what lies between two offsets, as {@code readFiles}. */
    public long readRange(String from, String to, String path, long mostBytes) throws Exception {
        offsets.take(from, to);
        return read(path, mostBytes);
    }

    private long read(String path, long mostBytes) throws Exception {
        this.path = path;
        this.mostBytes = mostBytes;
        try {
            return tasks.run(this, tag, settings);
        } catch (TaskKilledException error) {
            renew();
            return INTERRUPTED;
        } catch (Exception error) {
            renew();
            throw error;
        }
    }

    /** After a failure: what was computed halfway may have left something behind. */
    private void renew() {
        compiled = compiled == null ? null : plan.compiled(source);
    }

    @Override
    public long run(TaskContext task) throws Exception {
        ArrowFile out = new ArrowFile(path, schema, largeTypes, mostBytes);
        try {
            Iterator<InternalRow> rows = compiled == null
                ? source.read(task) : compiled.iterator(compiled.partitions()[0], task);
            return out.write(rows) ? out.size() : TOO_LARGE;
        } finally {
            out.close();
        }
    }

    /** Files as an ordinary frame. */
    public Dataset<?> frameOfFiles(String lines) throws IOException {
        files.take(lines);
        return framed();
    }

    /** What lies between two offsets, as an ordinary frame. */
    public Dataset<?> frameOfRange(String from, String to) throws IOException {
        offsets.take(from, to);
        return framed();
    }

    private Dataset<?> framed() throws IOException {
        Dataset<?> rows = source.frame();
        return plan.isLeaf() ? rows : plan.over(rows);
    }

    public String initial() {
        return offsets.initial();
    }

    /** Up to where to read next; null: nothing is new. */
    public String latest(String from) {
        return offsets.latest(from);
    }

    /** The source may forget what lies before this. */
    public void commit(String offset) {
        offsets.commit(offset);
    }

    /** Names the position at a start, as some readers ask to be told. */
    public void seen(String offset) {
        offsets.seen(offset);
    }

    /** Ends the read that is under way before its next row. */
    public void interrupt() {
        tasks.interrupt(tag);
    }

    public void stop() {
        if (offsets != null) {
            offsets.stop();
        }
    }
}
