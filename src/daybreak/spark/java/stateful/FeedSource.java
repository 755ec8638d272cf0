// The source of stateful queries: rows of the feed, step by step. Compiled by Janino in the driver,
// so there is no jar to ship: no lambdas, no generics. Executors read Parquet files; nothing of this
// runs there.
package daybreak.stateful;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.util.ArrayList;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.streaming.Offset;
import org.apache.spark.sql.execution.streaming.Source;
import org.apache.spark.sql.sources.StreamSourceProvider;
import org.apache.spark.sql.types.StructType;

public class FeedSource implements StreamSourceProvider {
    /** The last step that each query may read, by the folder of its steps. */
    static final ConcurrentHashMap ALLOWED = new ConcurrentHashMap();

    public FeedSource() {}

    static AtomicLong allowed(String folder) {
        ALLOWED.putIfAbsent(folder, new AtomicLong(-1L));
        return (AtomicLong) ALLOWED.get(folder);
    }

    /** From now on the query may read up to this step. */
    public void allow(String folder, long step) { allowed(folder).set(step); }

    /** An absolute path for Spark, to which what it reads is a pattern: as to_read of
        log/hadoop_names.py, and a test holds both against each other. */
    public static String toRead(String path) {
        return "file://" + path.replaceAll("([\\[\\]{}*?\\\\])", "\\\\$1");
    }

    public scala.Tuple2 sourceSchema(
        SQLContext context, scala.Option schema, String name,
        scala.collection.immutable.Map options) {
        return new scala.Tuple2("daybreak-feed", schema.get());
    }

    public Source createSource(
        SQLContext context, String checkpoint, scala.Option schema, String name,
        scala.collection.immutable.Map options) {
        return new Rows(
            (SparkSession) context.sparkSession(), (StructType) schema.get(),
            (String) options.apply("steps"), (String) options.apply("stream"));
    }

    /** The rows of one stream for one query. */
    public static class Rows implements Source {
        final SparkSession session;
        final StructType schema;
        final String steps;
        final String stream;
        final ObjectMapper json = new ObjectMapper();

        public Rows(SparkSession session, StructType schema, String steps, String stream) {
            this.session = session;
            this.schema = schema;
            this.steps = steps;
            this.stream = stream;
        }

        public StructType schema() { return schema; }

        public scala.Option getOffset() {
            long step = allowed(steps).get();
            return step < 0L ? scala.Option.empty() : scala.Option.apply(new Step(step));
        }

        /** The rows of the steps after start, up to end. A step that is not there is an error:
            it must not pass for one without rows. */
        public Dataset getBatch(scala.Option start, Offset end) {
            long first = start.isDefined() ? number(((Offset) start.get()).json()) + 1L : 0L;
            long last = number(end.json());
            ArrayList files = new ArrayList();
            try {
                for (long step = first; step <= last; step++) {
                    JsonNode plan = json.readTree(new File(steps, step + ".json"));
                    JsonNode named = (JsonNode) ((JsonNode) plan.get("files")).get(stream);
                    for (int i = 0; named != null && i < named.size(); i++)
                        files.add(toRead(((JsonNode) named.get(i)).asText()));
                }
            } catch (java.io.IOException missing) {
                throw new IllegalStateException("step of " + steps + " cannot be read", missing);
            }
            org.apache.spark.sql.SparkSession plain = session;
            Dataset rows;
            if (files.isEmpty()) rows = plain.createDataFrame(new ArrayList(), schema);
            else rows = plain.read().schema(schema)
                .parquet((String[]) files.toArray(new String[0]));
            return session.internalCreateDataFrame(
                ((org.apache.spark.sql.classic.Dataset) rows).queryExecution().toRdd(), schema, true);
        }

        static long number(String json) { return Long.parseLong(json.trim()); }

        public org.apache.spark.sql.connector.read.streaming.Offset initialOffset() {
            throw new UnsupportedOperationException("initialOffset");
        }
        public org.apache.spark.sql.connector.read.streaming.Offset deserializeOffset(String text) {
            return new Step(number(text));
        }
        public void commit(Offset end) {}
        public void commit(org.apache.spark.sql.connector.read.streaming.Offset end) {}
        public void stop() {}
        public String toString() { return "feed of " + stream; }
    }

    /** All steps up to this one. */
    public static class Step extends Offset {
        final long number;
        public Step(long number) { this.number = number; }
        public String json() { return Long.toString(number); }
    }
}
