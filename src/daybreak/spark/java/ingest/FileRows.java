package daybreak.ingest;

import daybreak.tasks.Lists;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.TaskContext;
import org.apache.spark.paths.SparkPath;
import org.apache.spark.sql.DataFrameReader;
import org.apache.spark.sql.catalyst.FileSourceOptions;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.InternalRow$;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap;
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap$;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.DataSource;
import org.apache.spark.sql.execution.datasources.FileFormat;
import org.apache.spark.sql.execution.datasources.FilePartition;
import org.apache.spark.sql.execution.datasources.FileScanRDD;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.StructType;
import scala.Function1;
import scala.collection.Iterator;
import scala.collection.immutable.Map;
import scala.collection.immutable.Map$;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag;
import scala.reflect.ClassTag$;

/** Rows of files, read by the format's own reader as a task of a scan reads them. */
class FileRows extends SourceRows {
    private static final ClassTag<InternalRow> ROWS =
        ClassTag$.MODULE$.apply(InternalRow.class);

    private final SparkSession session;
    private final DataSource source;
    private final StructType columns;
    private final Map<String, String> options;
    private final boolean ignoresMissing;
    private final Configuration hadoop;
    /** What executes a scan of files. It is made once, since it is given its files at each read. */
    private final FileScanRDD scan;
    private List<PartitionedFile> files = new ArrayList<>();

    FileRows(SparkSession session, DataSource source) throws IOException {
        this.session = session;
        this.source = source;
        this.columns = source.sourceInfo().schema();
        if (!source.sourceInfo().partitionColumns().isEmpty()) {
            throw new Unread("its folder has partition columns");
        }
        Object provider = source.providingInstance();
        if (!(provider instanceof FileFormat)) {
            throw new Unread(source.className() + " is a source of Spark's first API");
        }
        FileFormat format = (FileFormat) provider;
        CaseInsensitiveMap<String> given = CaseInsensitiveMap$.MODULE$.apply(source.options());
        this.hadoop = session.sessionState().newHadoopConfWithOptions(given);
        if (given.contains("path")) {
            requireNoLogOfSink(new Path((String) given.apply("path")));
        }
        this.options = (Map<String, String>) given.removed("path");
        FileSourceOptions reading = new FileSourceOptions(given);
        this.ignoresMissing = reading.ignoreMissingFiles();
        // Rows one by one, as they go to Arrow.
        Map<String, String> byRow = with(options, FileFormat.OPTION_RETURNING_BATCH(), "false");
        Function1<PartitionedFile, Iterator<InternalRow>> reader =
            format.buildReaderWithPartitionValues(
                session, columns, new StructType(), columns, Lists.<Filter>none(), byRow, hadoop);
        this.scan = new FileScanRDD(
            session, reader, Lists.<FilePartition>none(), columns,
            Lists.<AttributeReference>none(), format.fileConstantMetadataExtractors(), reading);
    }

    @SuppressWarnings("unchecked")  // javac sees a raw type in what Scala returns
    private static Map<String, String> with(Map<String, String> all, String key, String value) {
        return (Map<String, String>) all.updated(key, value);
    }

    /** What a sink of files has committed is in its log: other files there are not to be read. */
    private void requireNoLogOfSink(Path folder) throws IOException {
        if (folder.getFileSystem(hadoop).exists(new Path(folder, "_spark_metadata"))) {
            throw new Unread("its folder has the log of a sink, _spark_metadata");
        }
    }

    @Override
    StructType columns() {
        return columns;
    }

    /**
     * What is read next: lines of path, size and time of modification in ms, with tabs between
     * them. In a path, a tab, an end of line and a backslash are written with a backslash.
     */
    void take(String lines) throws IOException {
        List<PartitionedFile> taken = new ArrayList<>();
        for (String line : lines.isEmpty() ? new String[0] : lines.split("\n")) {
            String[] parts = line.split("\t");
            long size = Long.parseLong(parts[1]);
            taken.add(new PartitionedFile(
                InternalRow$.MODULE$.empty(), SparkPath.fromPath(path(parts[0])), 0L, size,
                new String[0], Long.parseLong(parts[2]), size,
                Map$.MODULE$.<String, Object>empty()));
        }
        files = taken;
    }

    private Path path(String written) throws IOException {
        String text = written;
        if (text.indexOf('\\') >= 0) {
            text = text.replace("\\t", "\t").replace("\\n", "\n").replace("\\b", "\\");
        }
        Path path = new Path(text);
        FileSystem system = path.getFileSystem(hadoop);
        return path.makeQualified(system.getUri(), system.getWorkingDirectory());
    }

    @Override
    Iterator<InternalRow> read(TaskContext task) {
        PartitionedFile[] array = (PartitionedFile[]) files.toArray(new PartitionedFile[0]);
        return scan.compute(new FilePartition(0, array), task);
    }

    @Override
    Dataset<?> frame() throws IOException {
        // As patterns: with Spark's option for plain names, __globPaths__, each name that looks
        // like a pattern has all files read once more.
        List<String> paths = new ArrayList<>();
        for (PartitionedFile file : files) {
            Path path = file.filePath().toPath();
            if (!ignoresMissing || path.getFileSystem(hadoop).exists(path)) {
                paths.add(path.toString().replaceAll("([\\[\\]{}*?\\\\])", "\\\\$1"));
            }
        }
        if (paths.isEmpty()) {
            return session.internalCreateDataFrame(
                session.sparkContext().emptyRDD(ROWS), columns, false);
        }
        DataFrameReader reader = session.read().format(source.className())
            .options(CollectionConverters.asJava(options)).schema(columns);
        return (Dataset<?>) reader.load((String[]) paths.toArray(new String[0]));
    }
}
