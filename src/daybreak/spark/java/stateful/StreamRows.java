package daybreak.stateful;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.streaming.Offset;
import org.apache.spark.sql.execution.streaming.Source;
import org.apache.spark.sql.types.StructType;
import scala.Option;

/** The rows of one stream for one query. */
public class StreamRows implements Source {
    private final SparkSession session;
    private final StructType schema;
    private final String steps;
    private final String stream;
    private final ObjectMapper json = new ObjectMapper();

    StreamRows(SparkSession session, StructType schema, String steps, String stream) {
        this.session = session;
        this.schema = schema;
        this.steps = steps;
        this.stream = stream;
    }

    @Override
    public StructType schema() {
        return schema;
    }

    @Override
    public Option<Offset> getOffset() {
        long step = FeedSource.allowed(steps).get();
        return Option.apply(step < 0L ? null : (Offset) new Step(step));
    }

    /**
     * The rows of the steps after start, up to end. A step that is not there is an error: it must
     * not pass for one without rows.
     */
    @Override
    public Dataset<Row> getBatch(Option<Offset> start, Offset end) {
        long first = start.isDefined() ? number(((Offset) start.get()).json()) + 1L : 0L;
        long last = number(end.json());
        List<String> files = new ArrayList<>();
        try {
            for (long step = first; step <= last; step++) {
                JsonNode plan = json.readTree(new File(steps, step + ".json"));
                JsonNode named = (JsonNode) ((JsonNode) plan.get("files")).get(stream);
                for (int i = 0; named != null && i < named.size(); i++) {
                    files.add(FeedSource.toRead(((JsonNode) named.get(i)).asText()));
                }
            }
        } catch (IOException missing) {
            throw new IllegalStateException("step of " + steps + " cannot be read", missing);
        }
        org.apache.spark.sql.SparkSession plain = session;
        Dataset<Row> rows;
        if (files.isEmpty()) {
            rows = plain.createDataFrame(new ArrayList<Row>(), schema);
        } else {
            rows = plain.read().schema(schema)
                .parquet((String[]) files.toArray(new String[0]));
        }
        return session.internalCreateDataFrame(
            ((org.apache.spark.sql.classic.Dataset<Row>) rows).queryExecution().toRdd(), schema,
            true);
    }

    private static long number(String json) {
        return Long.parseLong(json.trim());
    }

    @Override
    public org.apache.spark.sql.connector.read.streaming.Offset initialOffset() {
        throw new UnsupportedOperationException("initialOffset");
    }

    @Override
    public org.apache.spark.sql.connector.read.streaming.Offset deserializeOffset(String text) {
        return new Step(number(text));
    }

    @Override
    public void commit(Offset end) {}

    @Override
    public void commit(org.apache.spark.sql.connector.read.streaming.Offset end) {}

    @Override
    public void stop() {}

    @Override
    public String toString() {
        return "feed of " + stream;
    }
}
