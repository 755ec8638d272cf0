package daybreak.governed;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.sql.execution.streaming.*;
import org.apache.spark.sql.execution.streaming.runtime.*;
import org.apache.spark.sql.streaming.StreamingQueryListener;
import org.apache.spark.sql.streaming.StreamingQueryListener.QueryIdleEvent;
import org.apache.spark.sql.streaming.StreamingQueryListener.QueryProgressEvent;
import org.apache.spark.sql.streaming.StreamingQueryListener.QueryStartedEvent;
import org.apache.spark.sql.streaming.StreamingQueryListener.QueryTerminatedEvent;
import org.apache.spark.sql.streaming.StreamingQueryManager;

/**
 * The part of the governor that lives in Spark's driver: puts a gate before each query of a session
 * and tells Python what happens there.
 */
@SuppressWarnings("serial")  // it is never written
public class Gates extends StreamingQueryListener {
    private final StreamingQueryManager streams;
    private final ConcurrentHashMap<String, Gate> gates = new ConcurrentHashMap<>();  // by run id
    private final Feeds feeds = new Feeds();
    private final Events events = new Events();
    private final ForeignQueries foreign = new ForeignQueries(events);
    private volatile boolean open = false;

    public Gates(StreamingQueryManager streams) {
        this.streams = streams;
    }

    /** Raises what is missing of the internals that every gate needs. */
    public static void check() throws Exception {
        Internals.check();
    }

    /** What is to be added to the listeners of the whole application. */
    public SparkListener foreign() {
        return foreign;
    }

    // Spark calls this on the query's own thread, before it makes its sources: nothing has run yet.
    @Override
    public void onQueryStarted(QueryStartedEvent started) {
        Map<String, Object> event = Events.event("started", started.runId());
        event.put("id", started.id().toString());
        event.put("name", started.name());
        event.put("class", null);
        event.put("restart", null);
        String free = null;
        try {
            StreamExecution x =
                ((StreamingQueryWrapper) streams.get(started.id())).streamingQuery();
            // The query's thread inherits the properties of the thread that started it.
            SparkContext context = x.sparkSession().sparkContext();
            event.put("class", context.getLocalProperty("daybreak.class"));
            event.put("restart", context.getLocalProperty("daybreak.restart"));
            free = gate(x, started.runId().toString());
        } catch (Throwable failure) {
            free = "Spark's internals are not as expected: " + failure;
        }
        event.put("free", free);
        events.tell(event);
    }

    /** Puts a gate before the query; returns why it runs free, or null. */
    private String gate(StreamExecution x, String run) throws Exception {
        if (open) {
            return "the governor was stopped";
        }
        if (!(x instanceof MicroBatchExecution)
            || !(x.trigger() instanceof ProcessingTimeTrigger)) {
            return "trigger " + x.trigger();
        }
        long intervalMs = ((ProcessingTimeTrigger) x.trigger()).intervalMs();
        Gate gate = new Gate(events, feeds, run, x, intervalMs, open);
        Internals.setClock(x, gate);
        gates.put(run, gate);
        return null;
    }

    @Override
    public void onQueryProgress(QueryProgressEvent progress) {}

    @Override
    public void onQueryIdle(QueryIdleEvent idle) {}

    @Override
    public void onQueryTerminated(QueryTerminatedEvent ended) {
        gates.remove(ended.runId().toString());
        Map<String, Object> event = Events.event("gone", ended.runId());
        event.put("error", ended.exception().isDefined() ? ended.exception().get() : null);
        events.tell(event);
    }

    /**
     * Lets a query run one micro-batch, of so many units of each source ("": of all there are);
     * false if it is gone or does not wait: a gate has one permit at most.
     */
    public boolean grant(String run, String units) {
        Gate gate = (Gate) gates.get(run);
        return gate != null && gate.grant(units);
    }

    /** Lets all queries run free from now on, also those that start later. */
    public void open() {
        open = true;
        for (Gate gate : gates.values()) {
            gate.open();
        }
    }

    /** Wakes whoever polls. */
    public void nudge() {
        events.tell(Events.event("nudge", ""));
    }

    /** What has happened, as a JSON array; waits so long for the first event. */
    public String poll(long ms) throws Exception {
        return events.poll(ms);
    }

    /** Looks at every source once, whichever number of queries reads it, and reports what waits. */
    public void probe() {
        Set<Feed> looked = new HashSet<>();
        List<Gate> parked = new ArrayList<>();
        for (Gate gate : gates.values()) {
            if (!gate.parked) {
                continue;
            }
            parked.add(gate);
            for (Input input : gate.inputs) {
                if (input.feed != null && !looked.contains(input.feed)
                    && input.feed.look(input.source, gate.x.committedOffsets())) {
                    looked.add(input.feed);
                }
            }
        }
        for (Gate gate : parked) {
            gate.report();
        }
        feeds.trim(gates.values());
    }
}
