package daybreak.ingest;

import daybreak.tasks.Lists;
import java.io.IOException;
import java.util.List;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.deploy.SparkHadoopUtil;
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap;
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap$;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.InMemoryFileIndex;
import org.apache.spark.sql.execution.datasources.NoopCache$;
import org.apache.spark.sql.execution.datasources.PartitionSpec;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.Some;
import scala.collection.immutable.Map;

/** The files of a source, wherever they are, as {@code FileStreamSource} finds them. */
public class SourceFiles {
    private final SparkSession session;
    private final FileSystem system;
    /** May be a pattern. */
    private final Path path;
    private final CaseInsensitiveMap<String> options;

    /** Of a session, a path and options of the source. */
    public SourceFiles(SparkSession session, String path, Map<String, String> options)
            throws IOException {
        this.session = session;
        this.options = CaseInsensitiveMap$.MODULE$.apply(options);
        Path given = new Path(path);
        this.system = given.getFileSystem(session.sessionState().newHadoopConf());
        this.path = system.makeQualified(given);
    }

    /** Path, size and time of modification in ms of each file, each ended by a zero. */
    public String list() {
        InMemoryFileIndex found = new InMemoryFileIndex(
            session, SparkHadoopUtil.get().globPathIfNecessary(system, path), options,
            new Some<StructType>(new StructType()), NoopCache$.MODULE$,
            Option.<PartitionSpec>empty(), Option.<Object>empty());
        StringBuilder text = new StringBuilder();
        for (FileStatus file : (List<FileStatus>) Lists.list(found.allFiles())) {
            text.append(file.getPath()).append('\0').append(file.getLen()).append('\0')
                .append(file.getModificationTime()).append('\0');
        }
        return text.toString();
    }
}
