package daybreak.ingest;

import java.util.HashSet;
import java.util.Set;
import org.apache.spark.rdd.PartitionCoalescer;
import org.apache.spark.rdd.PartitionPruningRDD;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.types.StructType;
import scala.Option$;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag$;

/** A large batch as several frames, each of some of its partitions, that are read one by one. */
public class Pieces {
    private final SparkSession session;
    private final StructType schema;
    private final RDD<InternalRow> rows;

    public Pieces(Dataset<?> frame) {
        this.session = (SparkSession) frame.sparkSession();
        this.schema = frame.schema();
        this.rows = frame.queryExecution().toRdd();
    }

    public int count() {
        return rows.getNumPartitions();
    }

    /** The partitions from one up to, not including, another, in at most so many tasks. */
    public Dataset<?> piece(int from, int until, int tasks) {
        Set<Object> kept = new HashSet<>();
        for (int index = from; index < until; index++) {
            kept.add(Integer.valueOf(index));
        }
        // A set is a function, and one that executors know: it goes to them with the RDD.
        scala.collection.immutable.Set<Object> isKept =
            CollectionConverters.asScala(kept).<Object>toSet();
        RDD<InternalRow> some = new PartitionPruningRDD<InternalRow>(
            rows, isKept, ClassTag$.MODULE$.<InternalRow>apply(InternalRow.class));
        RDD<InternalRow> few =
            some.coalesce(tasks, false, Option$.MODULE$.<PartitionCoalescer>empty(), null);
        return session.internalCreateDataFrame(few, schema, false);
    }
}
