package daybreak.governed;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.execution.streaming.*;
import org.apache.spark.sql.execution.streaming.runtime.*;
import org.apache.spark.sql.streaming.SourceProgress;
import org.apache.spark.sql.streaming.StateOperatorProgress;
import org.apache.spark.sql.streaming.StreamingQueryProgress;

/** What a query's micro-batches did, by Spark's own reports. Guarded by its gate. */
class Progress {
    private final StreamExecution x;
    private StreamingQueryProgress last = null;

    Progress(StreamExecution x) {
        this.x = x;
    }

    /** The micro-batch that ended, if one did, and how far it has read each source. */
    void describe(Map<String, Object> event, Input[] inputs, long turn) throws Exception {
        StreamingQueryProgress p = x.lastProgress();
        // A trigger that finds nothing may report progress, too, but it has added no batch.
        boolean ran = p != null && p != last && p.durationMs().containsKey("addBatch");
        last = p;
        event.put("ran", Boolean.valueOf(ran));
        if (ran) {
            event.put("batch", Long.valueOf(p.batchId()));
            event.put("ms", p.durationMs().get("triggerExecution"));
            event.put("out", Long.valueOf(p.sink().numOutputRows()));
            event.put("watermark", Boolean.valueOf(p.eventTime().containsKey("watermark")));
            event.put("timers", Boolean.valueOf(timers(p.stateOperators())));
        }
        SourceProgress[] read = ran ? p.sources() : new SourceProgress[0];
        List<Object> sources = new ArrayList<>();
        for (int s = 0; s < inputs.length; s++) {
            sources.add(source(inputs[s], s < read.length ? read[s].numInputRows() : 0L, turn));
        }
        event.put("sources", sources);
    }

    private Map<String, Object> source(Input input, long rows, long turn) throws Exception {
        Map<String, Object> about = new HashMap<>();
        about.put("name", input.name);
        about.put("probed", Boolean.valueOf(input.feed != null));
        about.put("rows", Long.valueOf(rows));
        if (input.feed != null) {
            long at = input.feed.position(input, x.committedOffsets());
            // Where it began is not known before its first trigger: what lies before that
            // offset it has not read.
            boolean known = turn > 0L && input.position >= 0L;
            about.put("units", Long.valueOf(known ? Math.max(0L, at - input.position) : 0L));
            input.position = at;
        }
        return about;
    }

    private static boolean timers(StateOperatorProgress[] operators) {
        for (StateOperatorProgress operator : operators) {
            String name = operator.operatorName();
            if (name.startsWith("flatMapGroupsWithState") || name.startsWith("transformWith")
                || name.startsWith("applyInPandasWithState")) {
                return true;
            }
        }
        return false;
    }
}
