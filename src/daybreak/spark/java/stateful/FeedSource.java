package daybreak.stateful;

import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.streaming.Source;
import org.apache.spark.sql.sources.StreamSourceProvider;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.Tuple2;
import scala.collection.immutable.Map;

/**
 * The source of stateful queries: rows of the feed, step by step. Executors read Parquet files;
 * nothing of this runs there.
 */
public class FeedSource implements StreamSourceProvider {
    /** The last step that each query may read, by the folder of its steps. */
    private static final ConcurrentHashMap<String, AtomicLong> ALLOWED = new ConcurrentHashMap<>();

    public FeedSource() {}

    static AtomicLong allowed(String folder) {
        ALLOWED.putIfAbsent(folder, new AtomicLong(-1L));
        return (AtomicLong) ALLOWED.get(folder);
    }

    /** From now on the query may read up to this step. */
    public void allow(String folder, long step) {
        allowed(folder).set(step);
    }

    /**
     * An absolute path for Spark, to which what it reads is a pattern: as to_read of
     * log/hadoop_names.py, and a test holds both against each other.
     */
    public static String toRead(String path) {
        return "file://" + path.replaceAll("([\\[\\]{}*?\\\\])", "\\\\$1");
    }

    @Override
    public Tuple2<String, StructType> sourceSchema(
        SQLContext context, Option<StructType> schema, String name, Map<String, String> options) {
        return new Tuple2<>("daybreak-feed", (StructType) schema.get());
    }

    @Override
    public Source createSource(
        SQLContext context, String checkpoint, Option<StructType> schema, String name,
        Map<String, String> options) {
        return new StreamRows(
            (SparkSession) context.sparkSession(), (StructType) schema.get(),
            (String) options.apply("steps"), (String) options.apply("stream"));
    }
}
