package daybreak.ingest;

import daybreak.tasks.Lists;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map.Entry;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
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
import scala.collection.Iterator$;
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
    private final FileFormat format;
    private final StructType columns;
    private final boolean hasPartitions;
    /** Where folders begin to give values to columns; null: they give none. */
    private final Path base;
    private final Map<String, String> options;
    private final FileSourceOptions reading;
    private final Configuration hadoop;
    /** What readers are given of it. */
    private final Configuration settings;
    /** What executes a scan of files. It is made once, since it is given its files at each read. */
    private final FileScanRDD flat;
    private FileScanRDD scan;
    /** The columns that folders give in {@code scan}. */
    private StructType partition = new StructType();
    private List<PartitionedFile> files = new ArrayList<>();

    FileRows(SparkSession session, DataSource source) throws IOException {
        this.session = session;
        this.source = source;
        this.columns = source.sourceInfo().schema();
        Object provider = source.providingInstance();
        if (!(provider instanceof FileFormat)) {
            throw new Unread(source.className() + " is a source of Spark's first API");
        }
        this.format = (FileFormat) provider;
        CaseInsensitiveMap<String> given = CaseInsensitiveMap$.MODULE$.apply(source.options());
        this.hadoop = session.sessionState().newHadoopConfWithOptions(given);
        this.hasPartitions = !source.sourceInfo().partitionColumns().isEmpty();
        this.base = base(given);
        if (hasPartitions && base == null) {
            throw new Unread("its path is a pattern of folders that give values to columns");
        }
        this.options = (Map<String, String>) given.removed("path");
        this.reading = new FileSourceOptions(given);
        boolean isLocal = base != null && base.getFileSystem(hadoop) instanceof LocalFileSystem;
        this.settings = isLocal ? withoutDefaults(hadoop) : hadoop;
        this.flat = hasPartitions ? null : scan(columns, partition);
        this.scan = flat;
    }

    /** The folder that is read; null if it is a pattern. */
    private Path base(CaseInsensitiveMap<String> given) throws IOException {
        String text = given.contains("path") ? (String) given.apply("path") : "*";
        if (text.matches(".*[{}\\[\\]*?\\\\].*")) {
            return null;
        }
        Path folder = qualified(text);
        // What a sink of files has committed is in its log: other files there are not to be read.
        if (folder.getFileSystem(hadoop).exists(new Path(folder, "_spark_metadata"))) {
            throw new Unread("its folder has the log of a sink, _spark_metadata");
        }
        return folder;
    }

    /**
     * Settings beyond those of Hadoop's own files of defaults, which code has as well. Readers copy
     * all of them, 1 100 with the defaults, for each file: near half of the time of a small one.
     * Defaults of other file systems are in those files alone.
     */
    private static Configuration withoutDefaults(Configuration all) {
        Configuration kept = new Configuration(false);
        for (Object one : all) {
            Entry<?, ?> entry = (Entry<?, ?>) one;
            String name = (String) entry.getKey();
            String[] origins = all.getPropertySources(name);
            if (origins == null || origins.length != 1 || !origins[0].endsWith("-default.xml")) {
                kept.set(name, (String) entry.getValue());
            }
        }
        return kept;
    }

    private FileScanRDD scan(StructType data, StructType folders) {
        // Rows one by one, as they go to Arrow.
        Map<String, String> byRow = with(options, FileFormat.OPTION_RETURNING_BATCH(), "false");
        Function1<PartitionedFile, Iterator<InternalRow>> reader =
            format.buildReaderWithPartitionValues(
                session, data, folders, data, Lists.<Filter>none(), byRow,
                settings);
        return new FileScanRDD(
            session, reader, Lists.<FilePartition>none(), columns,
            Lists.<AttributeReference>none(), format.fileConstantMetadataExtractors(), reading);
    }

    @SuppressWarnings("unchecked")  // javac sees a raw type in what Scala returns
    private static Map<String, String> with(Map<String, String> all, String key, String value) {
        return (Map<String, String>) all.updated(key, value);
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
            taken.add(file(
                InternalRow$.MODULE$.empty(), SparkPath.fromPath(qualified(unescaped(parts[0]))),
                Long.parseLong(parts[1]), Long.parseLong(parts[2])));
        }
        files = taken;
    }

    private static PartitionedFile file(InternalRow values, SparkPath path, long size, long ms) {
        return new PartitionedFile(
            values, path, 0L, size, new String[0], ms, size, Map$.MODULE$.<String, Object>empty());
    }

    private static String unescaped(String text) {
        return text.indexOf('\\') < 0 ? text
            : text.replace("\\t", "\t").replace("\\n", "\n").replace("\\b", "\\");
    }

    private Path qualified(String text) throws IOException {
        Path path = new Path(text);
        FileSystem system = path.getFileSystem(hadoop);
        return path.makeQualified(system.getUri(), system.getWorkingDirectory());
    }

    /** Makes ready for {@code read}. */
    void open() throws IOException {
        if (!hasPartitions && !areInFolders()) {
            scan = flat;
            return;
        }
        keepThere();
        if (files.isEmpty()) {
            return;
        }
        FolderValues folders = new FolderValues(loaded());
        if (scan == null || scan == flat || !partition.equals(folders.partition())) {
            scan = scan(folders.data(), folders.partition());
            partition = folders.partition();
        }
        List<PartitionedFile> valued = new ArrayList<>();
        for (PartitionedFile file : files) {
            valued.add(file(
                folders.of(file.toPath()), file.filePath(), file.fileSize(),
                file.modificationTime()));
        }
        files = valued;
    }

    /** Whether a folder below the base may give values to columns. */
    private boolean areInFolders() {
        for (PartitionedFile file : files) {
            Path folder = file.toPath().getParent();
            while (base != null && folder != null && !folder.equals(base)) {
                if (folder.getName().indexOf('=') >= 0) {
                    return true;
                }
                folder = folder.getParent();
            }
        }
        return false;
    }

    /** Forgets files that have gone, where the stream's options say that this is no error. */
    private void keepThere() throws IOException {
        List<PartitionedFile> kept = new ArrayList<>();
        for (PartitionedFile file : files) {
            Path path = file.toPath();
            if (!reading.ignoreMissingFiles() || path.getFileSystem(hadoop).exists(path)) {
                kept.add(file);
            }
        }
        files = kept;
    }

    @Override
    Iterator<InternalRow> read(TaskContext task) {
        if (files.isEmpty()) {
            return (Iterator<InternalRow>) Iterator$.MODULE$.<InternalRow>empty();
        }
        PartitionedFile[] array = (PartitionedFile[]) files.toArray(new PartitionedFile[0]);
        return scan.compute(new FilePartition(0, array), task);
    }

    /**
     * As in a micro-batch no column is left out: which records are malformed depends on those that
     * are read, and Spark refuses to read the texts of malformed ones alone.
     */
    @Override
    Dataset<?> frame() throws IOException {
        Dataset<?> loaded = loaded();
        return session.internalCreateDataFrame(
            loaded.queryExecution().toRdd(), loaded.schema(), false);
    }

    /** The files as Spark loads them in a batch. */
    private Dataset<?> loaded() throws IOException {
        // As patterns: with Spark's option for plain names, __globPaths__, each name that looks
        // like a pattern has all files read once more.
        keepThere();
        List<String> paths = new ArrayList<>();
        for (PartitionedFile file : files) {
            paths.add(file.toPath().toString().replaceAll("([\\[\\]{}*?\\\\])", "\\\\$1"));
        }
        if (paths.isEmpty()) {
            return session.internalCreateDataFrame(
                session.sparkContext().emptyRDD(ROWS), columns, false);
        }
        DataFrameReader reader = session.read().format(source.className())
            .options(CollectionConverters.asJava(options)).schema(columns);
        if (base != null) {
            reader = reader.option("basePath", base.toString());
        }
        Dataset<?> loaded = (Dataset<?>) reader.load((String[]) paths.toArray(new String[0]));
        if (!Arrays.equals(loaded.schema().fieldNames(), columns.fieldNames())) {
            throw new IllegalStateException(
                "the folders of its files give other columns than those of the stream: "
                + String.join(", ", loaded.schema().fieldNames()));
        }
        return loaded;
    }
}
