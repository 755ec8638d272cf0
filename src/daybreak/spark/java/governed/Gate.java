package daybreak.governed;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Semaphore;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import org.apache.spark.sql.execution.streaming.*;
import org.apache.spark.sql.execution.streaming.runtime.*;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.util.Clock;
import scala.jdk.javaapi.CollectionConverters;

/** The clock of a query's trigger: parks its thread until it is granted a micro-batch. */
class Gate implements Clock {
    final StreamExecution x;
    volatile boolean parked = false;
    volatile Input[] inputs = new Input[0];

    private final Events events;
    private final Feeds feeds;
    private final String run;
    private final long intervalMs;
    private final Semaphore grants = new Semaphore(0);
    private final Limits limits;
    private final Progress progress;
    private volatile boolean open;
    private boolean started = false;
    private long turn = 0L;
    private long dueMs = 0L;
    private String reported = "";
    /** What the last report was made from. */
    private long looked = -1L;

    Gate(Events events, Feeds feeds, String run, StreamExecution x, long intervalMs, boolean open) {
        this.events = events;
        this.feeds = feeds;
        this.run = run;
        this.x = x;
        this.intervalMs = intervalMs;
        this.limits = new Limits(x);
        this.progress = new Progress(x);
        this.open = open;
    }

    // Without an interval Spark's loop does not wait, but it asks for the time at its head.
    @Override
    public long getTimeMillis() {
        if (!open && (!started || intervalMs == 0L) && calledFromLoop()) {
            park(0L);
        }
        return System.currentTimeMillis();
    }

    @Override
    public long nanoTime() {
        return System.nanoTime();
    }

    @Override
    public long waitTillTime(long dueMs) {
        if (open) {  // as the clock that this one stands for
            long left = dueMs - System.currentTimeMillis();
            try {
                if (left > 0L) {
                    Thread.sleep(left);
                }
            } catch (InterruptedException stopped) {
                Platform.throwException(stopped);
            }
        } else {
            park(dueMs);
        }
        return System.currentTimeMillis();
    }

    private static boolean calledFromLoop() {
        StackTraceElement[] frames = new Throwable().getStackTrace();
        for (int i = 0; i < frames.length && i < 5; i++) {
            if (frames[i].getClassName().endsWith(".ProcessingTimeExecutor")) {
                return true;
            }
        }
        return false;
    }

    private void park(long dueMs) {
        boolean first = !started;
        started = true;
        if (open) {
            return;
        }
        if (first) {
            inputs = inputs();
        }
        Map<String, Object> event = Events.event("ready", run);
        synchronized (this) {
            this.dueMs = dueMs;
            parked = true;
            try {
                describe(event);
            } catch (Throwable failure) {
                event.put("trouble", String.valueOf(failure));
            }
        }
        events.tell(event);
        try {
            grants.acquire();
        } catch (InterruptedException stopped) {
            Platform.throwException(stopped);
        } finally {
            parked = false;
        }
    }

    synchronized boolean grant(String units) {
        if (!parked) {
            return false;  // inside a micro-batch, which may hang
        }
        parked = false;  // from here on the query's thread alone touches its sources
        limits.limit(inputs, units);
        turn++;
        grants.release();
        return true;
    }

    synchronized void open() {
        limits.limit(inputs, "");
        open = true;
        parked = false;
        grants.release();
    }

    private Input[] inputs() {
        List<Input> found = new ArrayList<>();
        for (Object source : CollectionConverters.asJava(x.sources())) {
            found.add(new Input(feeds, source));
        }
        return (Input[]) found.toArray(new Input[0]);
    }

    /** The micro-batch that ended, if one did, and what waits now. */
    private void describe(Map<String, Object> event) throws Exception {
        event.put("turn", Long.valueOf(turn));
        event.put("due", Long.valueOf(dueMs));
        progress.describe(event, inputs, turn);
        event.put("left", waiting());
        reported = "";
        looked = -1L;
    }

    private List<Object> waiting() throws Exception {
        List<Object> found = new ArrayList<>();
        if (System.currentTimeMillis() < dueMs) {
            return found;  // its interval is not over
        }
        for (int s = 0; s < inputs.length; s++) {
            if (inputs[s].feed != null) {
                inputs[s].feed.waiting(inputs[s], s, found, x.committedOffsets());
            }
        }
        return found;
    }

    /** Reports what waits where that has changed, and whether somebody waits for the query. */
    void report() {
        try {
            Map<String, Object> event = Events.event("waiting", run);
            synchronized (this) {
                if (!parked || turn == 0L) {
                    return;
                }
                long version = 0L;
                for (Input input : inputs) {
                    if (input.feed == null) {
                        continue;
                    }
                    version += input.feed.version;
                    if (input.feed.trouble != null) {
                        throw new IllegalStateException(input.feed.trouble);
                    }
                }
                boolean over = System.currentTimeMillis() >= dueMs;
                boolean awaited = over && awaited();
                // Most of the time nothing has changed, and finding out must cost nothing.
                long seen = version * 4L + (over ? 2L : 0L) + (awaited ? 1L : 0L);
                if (seen == looked) {
                    return;
                }
                looked = seen;
                event.put("turn", Long.valueOf(turn));
                event.put("waiting", waiting());
                event.put("awaited", Boolean.valueOf(awaited));
                String text = events.text(event);
                if (text.equals(reported)) {
                    return;
                }
                reported = text;
            }
            events.tell(event);
        } catch (Throwable failure) {
            // An internal is missing, or the source is being closed: empty grants remain.
            looked = -1L;
            Map<String, Object> event = Events.event("trouble", run);
            event.put("error", String.valueOf(failure));
            if (!reported.equals(String.valueOf(failure))) {
                events.tell(event);
            }
            reported = String.valueOf(failure);
        }
    }

    /** Whether a thread is inside {@code processAllAvailable}. */
    private boolean awaited() {
        try {
            ReentrantLock lock = (ReentrantLock) Internals.call(x, "awaitProgressLock");
            Condition progress = (Condition) Internals.call(x, "awaitProgressLockCondition");
            if (!lock.tryLock()) {
                return false;
            }
            try {
                return lock.hasWaiters(progress);
            } finally {
                lock.unlock();
            }
        } catch (Exception missing) {
            return false;
        }
    }
}
