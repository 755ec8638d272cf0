package daybreak.governed;

import java.util.Map;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerApplicationEnd;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.sql.streaming.StreamingQueryListener.QueryStartedEvent;
import org.apache.spark.sql.streaming.StreamingQueryListener.QueryTerminatedEvent;

/** Hears of queries of other sessions, which have other listeners, and of the application's end. */
class ForeignQueries extends SparkListener {
    private final Events events;

    ForeignQueries(Events events) {
        this.events = events;
    }

    @Override
    public void onOtherEvent(SparkListenerEvent event) {
        Object of = event;  // events of streams are no subclass in the eyes of the compiler
        if (of instanceof QueryStartedEvent) {
            QueryStartedEvent started = (QueryStartedEvent) of;
            Map<String, Object> told = Events.event("seen", started.runId());
            told.put("id", started.id().toString());
            told.put("name", started.name());
            events.tell(told);
        } else if (of instanceof QueryTerminatedEvent) {
            QueryTerminatedEvent ended = (QueryTerminatedEvent) of;
            Map<String, Object> told = Events.event("unseen", ended.runId());
            told.put("error", ended.exception().isDefined() ? ended.exception().get() : null);
            events.tell(told);
        }
    }

    @Override
    public void onApplicationEnd(SparkListenerApplicationEnd end) {
        events.tell(Events.event("end", ""));
    }
}
