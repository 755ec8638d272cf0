// The part of the governor that lives in Spark's driver. Compiled by Janino when a governor starts,
// so there is no jar to ship: no lambdas, no generics, internals of Spark by reflection where their
// place differs between versions. See docs/governed.md for the internals that are used.
package daybreak.governed;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerApplicationEnd;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadAllAvailable;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReadMaxFiles;
import org.apache.spark.sql.connector.read.streaming.ReadMaxRows;
import org.apache.spark.sql.connector.read.streaming.SupportsAdmissionControl;
import org.apache.spark.sql.execution.streaming.*;
import org.apache.spark.sql.execution.streaming.runtime.*;
import org.apache.spark.sql.streaming.SourceProgress;
import org.apache.spark.sql.streaming.StateOperatorProgress;
import org.apache.spark.sql.streaming.StreamingQueryListener;
import org.apache.spark.sql.streaming.StreamingQueryListener.QueryIdleEvent;
import org.apache.spark.sql.streaming.StreamingQueryListener.QueryProgressEvent;
import org.apache.spark.sql.streaming.StreamingQueryListener.QueryStartedEvent;
import org.apache.spark.sql.streaming.StreamingQueryListener.QueryTerminatedEvent;
import org.apache.spark.sql.streaming.StreamingQueryManager;
import org.apache.spark.sql.streaming.StreamingQueryProgress;

public class Gates extends StreamingQueryListener {
    final StreamingQueryManager streams;
    final ConcurrentHashMap gates = new ConcurrentHashMap();  // run id -> Gate
    final HashMap feeds = new HashMap();                      // key -> Feed
    final LinkedBlockingQueue events = new LinkedBlockingQueue();
    final ObjectMapper json = new ObjectMapper();
    final Foreign foreign = new Foreign(this);
    volatile boolean open = false;

    public Gates(StreamingQueryManager streams) { this.streams = streams; }

    /** Raises what is missing of the internals that every gate needs. */
    public static void check() throws Exception {
        StreamExecution.class.getDeclaredField("triggerClock").setAccessible(true);
        MicroBatchExecution.class.getDeclaredField("triggerExecutor").setAccessible(true);
        ProcessingTimeTrigger.class.getMethod("intervalMs", new Class[0]);
    }

    /** What is to be added to the listeners of the whole application. */
    public SparkListener foreign() { return foreign; }

    void tell(Map event) { events.add(event); }

    static HashMap event(String kind, Object run) {
        HashMap event = new HashMap();
        event.put("kind", kind);
        event.put("run", String.valueOf(run));
        return event;
    }

    // Spark calls this on the query's own thread, before it makes its sources: nothing has run yet.
    public void onQueryStarted(QueryStartedEvent started) {
        HashMap event = event("started", started.runId());
        event.put("id", started.id().toString());
        event.put("name", started.name());
        event.put("class", null);
        event.put("restart", null);
        String free = null;
        try {
            StreamExecution x = ((StreamingQueryWrapper) streams.get(started.id())).streamingQuery();
            // The query's thread inherits the properties of the thread that started it.
            SparkContext context = x.sparkSession().sparkContext();
            event.put("class", context.getLocalProperty("daybreak.class"));
            event.put("restart", context.getLocalProperty("daybreak.restart"));
            free = gate(x, started.runId().toString());
        } catch (Throwable failure) {
            free = "Spark's internals are not as expected: " + failure;
        }
        event.put("free", free);
        tell(event);
    }

    /** Puts a gate before the query; returns why it runs free, or null. */
    String gate(StreamExecution x, String run) throws Exception {
        if (open) return "the governor was stopped";
        if (!(x instanceof MicroBatchExecution) || !(x.trigger() instanceof ProcessingTimeTrigger))
            return "trigger " + x.trigger();
        Gate gate = new Gate(this, run, x, ((ProcessingTimeTrigger) x.trigger()).intervalMs());
        Field clock = StreamExecution.class.getDeclaredField("triggerClock");
        clock.setAccessible(true);
        clock.set(x, gate);
        Field executor = MicroBatchExecution.class.getDeclaredField("triggerExecutor");
        executor.setAccessible(true);
        Object loop = executor.get(x);
        if (loop != null) {  // a Spark that makes it with the query; others make it after this
            Field own = loop.getClass().getDeclaredField("clock");
            own.setAccessible(true);
            own.set(loop, gate);
        }
        gates.put(run, gate);
        return null;
    }

    public void onQueryProgress(QueryProgressEvent progress) {}
    public void onQueryIdle(QueryIdleEvent idle) {}

    public void onQueryTerminated(QueryTerminatedEvent ended) {
        gates.remove(ended.runId().toString());
        HashMap event = event("gone", ended.runId());
        event.put("error", ended.exception().isDefined() ? ended.exception().get() : null);
        tell(event);
    }

    /** Lets a query run one micro-batch, of so many units of each source ("": of all there are);
        false if it is gone or does not wait: a gate has one permit at most. */
    public boolean grant(String run, String units) {
        Gate gate = (Gate) gates.get(run);
        if (gate == null) return false;
        return gate.grant(units);
    }

    /** Lets all queries run free from now on, also those that start later. */
    public void open() {
        open = true;
        for (Iterator i = gates.values().iterator(); i.hasNext();) ((Gate) i.next()).open();
    }

    /** Wakes whoever polls. */
    public void nudge() { tell(event("nudge", "")); }

    /** What has happened, as a JSON array; waits so long for the first event. */
    public String poll(long ms) throws Exception {
        ArrayList found = new ArrayList();
        Object first = events.poll(ms, TimeUnit.MILLISECONDS);
        if (first != null) found.add(first);
        events.drainTo(found);
        return found.isEmpty() ? "[]" : json.writeValueAsString(found);
    }

    // Probes

    /** Looks at every source once, whichever number of queries reads it, and reports what waits. */
    public void probe() {
        HashSet looked = new HashSet();
        ArrayList parked = new ArrayList();
        for (Iterator i = gates.values().iterator(); i.hasNext();) {
            Gate gate = (Gate) i.next();
            if (!gate.parked) continue;
            parked.add(gate);
            for (int s = 0; s < gate.inputs.length; s++) {
                Feed feed = gate.inputs[s].feed;
                if (feed != null && !looked.contains(feed)
                    && feed.look(gate.inputs[s].source, gate.x.committedOffsets()))
                    looked.add(feed);
            }
        }
        for (int i = 0; i < parked.size(); i++) ((Gate) parked.get(i)).report();
        synchronized (feeds) {
            for (Iterator i = feeds.values().iterator(); i.hasNext();) {
                Feed feed = (Feed) i.next();
                if (!feed.trim(gates.values())) i.remove();
            }
        }
    }

    Feed feed(String key, boolean files) {
        synchronized (feeds) {
            Feed feed = (Feed) feeds.get(key);
            if (feed == null) {
                feed = files ? (Feed) new FileFeed() : (Feed) new OffsetFeed();
                feeds.put(key, feed);
            }
            return feed;
        }
    }

    // Small helpers

    static final ConcurrentHashMap METHODS = new ConcurrentHashMap();

    /** Calls a method without arguments, whoever may. */
    static Object call(Object on, String method) throws Exception {
        String key = on.getClass().getName() + "." + method;
        Method known = (Method) METHODS.get(key);
        Class type = on.getClass();
        for (; known == null && type != null; type = type.getSuperclass()) {
            Method[] found = type.getDeclaredMethods();
            for (int i = 0; i < found.length && known == null; i++)
                if (found[i].getName().equals(method) && found[i].getParameterCount() == 0)
                    known = found[i];
        }
        if (known == null) throw new NoSuchMethodException(key);
        known.setAccessible(true);
        METHODS.put(key, known);
        return known.invoke(on, new Object[0]);
    }

    static Object field(Object of, String name) throws Exception {
        Field field = of.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field.get(of);
    }

    /** Queries of other sessions, which have other listeners, and the end of the application. */
    public static class Foreign extends SparkListener {
        final Gates gates;
        public Foreign(Gates gates) { this.gates = gates; }
        public void onOtherEvent(SparkListenerEvent event) {
            Object of = event;  // events of streams are no subclass in the eyes of the compiler
            if (of instanceof QueryStartedEvent) {
                QueryStartedEvent started = (QueryStartedEvent) of;
                HashMap told = event("seen", started.runId());
                told.put("id", started.id().toString());
                told.put("name", started.name());
                gates.tell(told);
            } else if (of instanceof QueryTerminatedEvent) {
                QueryTerminatedEvent ended = (QueryTerminatedEvent) of;
                HashMap told = event("unseen", ended.runId());
                told.put("error", ended.exception().isDefined() ? ended.exception().get() : null);
                gates.tell(told);
            }
        }
        public void onApplicationEnd(SparkListenerApplicationEnd end) {
            gates.tell(event("end", ""));
        }
    }

    /** One source of one query: what it has read, and the feed that knows what there is. */
    static class Input {
        final Object source;
        final String name;
        Feed feed;
        long position = 0L;
        int first = 0;  // groups of the feed before this one hold nothing new

        Input(Gates gates, Object source) {
            this.source = source;
            this.name = String.valueOf(source);
            String type = source.getClass().getSimpleName();
            try {
                String options = String.valueOf(field(source, "options"));
                if (type.equals("FileStreamSource")) {
                    call(source, "seenFiles");
                    feed = gates.feed("files " + name + " " + options, true);
                    ((FileFeed) feed).join();
                } else if (type.equals("KafkaMicroBatchStream")) {
                    feed = gates.feed("kafka " + name + " " + options, false);
                } else if (type.equals("RateStreamMicroBatchStream")) {
                    // Its offsets count from the start of its own query.
                    feed = gates.feed("rate " + System.identityHashCode(source), false);
                }
            } catch (Exception missing) {
                feed = null;
            }
        }
    }

    /** What a source holds, in groups that were first seen together. Guarded by itself. */
    abstract static class Feed {
        String trouble = null;
        volatile long version = 0L;  // another one whenever something was added
        /** Asks the source of a parked query, which may take long; false if it cannot yet. */
        abstract boolean look(Object source, Object committed);
        /** Adds [arrival ms, source index, units] of each group that holds something new. */
        abstract void waiting(Input input, int index, List found, Object committed) throws Exception;
        /** How far the query has come, in units that only grow; -1: not known yet. */
        abstract long position(Input input, Object committed) throws Exception;
        /** Forgets what all have read; false if nobody reads it. */
        abstract boolean trim(Iterable gates);
    }

    /** Files of a folder; the unit is a file. */
    static class FileFeed extends Feed {
        final ArrayList groups = new ArrayList();  // Object[] entries, each {path, Long timestamp}
        HashSet known = new HashSet();
        int dropped = 0;
        long listedMs = 0L;
        boolean flat = false;

        /** Another query comes, to which all files may be new. */
        synchronized void join() {
            version++;
            known = new HashSet();
            dropped += groups.size();
            groups.clear();
            listedMs = 0L;
        }
        /** Whether a folder without subfolders shows by its own time that nothing was added. */
        boolean unchanged(Object source, long now) throws Exception {
            if (!flat || now - listedMs > 5000L) return false;
            long changed = ((FileSystem) field(source, "fs"))
                .getFileStatus((Path) field(source, "qualifiedBasePath")).getModificationTime();
            return changed > 0L && changed < listedMs - 1000L;
        }
        boolean look(Object source, Object committed) {
            try {
                long now = System.currentTimeMillis();
                if (!unchanged(source, now)) {
                    listedMs = now;
                    take((Path) field(source, "qualifiedBasePath"), call(source, "fetchAllFiles"));
                }
                trouble = null;
            } catch (Throwable failure) { trouble = String.valueOf(failure); }
            return true;
        }
        synchronized void take(Path folder, Object listed) throws Exception {
            HashSet paths = new HashSet();
            ArrayList fresh = new ArrayList();
            flat = true;
            Iterator i = scala.jdk.javaapi.CollectionConverters.asJava(
                (scala.collection.Iterable) listed).iterator();
            while (i.hasNext()) {
                Object entry = i.next();
                Object path = call(entry, "path");
                paths.add(path);
                flat = flat && folder.equals(((Path) call(path, "toPath")).getParent());
                if (known.contains(path)) continue;
                fresh.add(new Object[] {path, call(entry, "timestamp")});
            }
            known = paths;
            if (fresh.isEmpty()) return;
            groups.add(fresh.toArray());
            version++;
        }
        synchronized void waiting(Input input, int index, List found, Object committed)
                throws Exception {
            Object seen = call(input.source, "seenFiles");
            Method isNew = null;
            Method[] methods = seen.getClass().getMethods();
            for (int m = 0; m < methods.length; m++)
                if (methods[m].getName().equals("isNewFile")) isNew = methods[m];
            input.first = Math.max(input.first, dropped);
            for (int g = input.first; g < dropped + groups.size(); g++) {
                Object[] entries = (Object[]) groups.get(g - dropped);
                long units = 0L;
                long arrival = Long.MAX_VALUE;
                for (int e = 0; e < entries.length; e++) {
                    Object[] entry = (Object[]) entries[e];
                    if (!((Boolean) isNew.invoke(seen, entry)).booleanValue()) continue;
                    units++;
                    arrival = Math.min(arrival, ((Long) entry[1]).longValue());
                }
                if (units > 0L)
                    found.add(new Object[] {Long.valueOf(arrival), Integer.valueOf(index),
                        Long.valueOf(units)});
                else if (g == input.first) input.first = g + 1;
            }
        }
        long position(Input input, Object committed) throws Exception {
            return ((Number) call(call(input.source, "seenFiles"), "size")).longValue();
        }
        synchronized boolean trim(Iterable gates) {
            int first = Integer.MAX_VALUE;
            for (Iterator i = gates.iterator(); i.hasNext();) {
                Gate gate = (Gate) i.next();
                for (int s = 0; s < gate.inputs.length; s++)
                    if (gate.inputs[s].feed == this) first = Math.min(first, gate.inputs[s].first);
            }
            while (first != Integer.MAX_VALUE && dropped < first && !groups.isEmpty()) {
                groups.remove(0);
                dropped++;
            }
            return first != Integer.MAX_VALUE;
        }
    }

    /** A source whose offsets are numbers, such as a topic; the unit is one of them. */
    static class OffsetFeed extends Feed {
        final ArrayList marks = new ArrayList();  // long[] {sum of the offsets, arrival ms}

        boolean look(Object source, Object committed) {
            scala.Option from = ((scala.collection.Map) committed).get(source);
            if (!from.isDefined()) return false;  // before its first trigger
            try {
                mark(sum(source instanceof SupportsAdmissionControl
                    ? ((SupportsAdmissionControl) source).latestOffset(
                        (Offset) from.get(), ReadLimit.allAvailable())
                    : ((MicroBatchStream) source).latestOffset()));
                trouble = null;
            } catch (Throwable failure) { trouble = String.valueOf(failure); }
            return true;
        }
        synchronized void mark(long sum) {
            long before = marks.isEmpty() ? Long.MIN_VALUE
                : ((long[]) marks.get(marks.size() - 1))[0];
            if (sum <= before) return;
            marks.add(new long[] {sum, System.currentTimeMillis()});
            version++;
        }
        synchronized void waiting(Input input, int index, List found, Object committed)
                throws Exception {
            long at = position(input, committed);
            if (at < 0L) return;
            for (int m = 0; m < marks.size(); m++) {
                long[] mark = (long[]) marks.get(m);
                if (mark[0] <= at) continue;
                found.add(new Object[] {Long.valueOf(mark[1]), Integer.valueOf(index),
                    Long.valueOf(mark[0] - at)});
                at = mark[0];
            }
        }
        long position(Input input, Object committed) throws Exception {
            scala.Option offset = ((scala.collection.Map) committed).get(input.source);
            return offset.isDefined() ? sum(offset.get()) : -1L;
        }
        synchronized boolean trim(Iterable gates) {
            long least = Long.MAX_VALUE;
            boolean used = false;
            for (Iterator i = gates.iterator(); i.hasNext();) {
                Gate gate = (Gate) i.next();
                for (int s = 0; s < gate.inputs.length; s++) {
                    if (gate.inputs[s].feed != this) continue;
                    used = true;
                    least = Math.min(least, gate.inputs[s].position);
                }
            }
            while (marks.size() > 1 && ((long[]) marks.get(0))[0] <= least) marks.remove(0);
            return used;
        }
        static long sum(Object offset) throws Exception {
            String text = ((Offset) offset).json();
            return sumOf(new ObjectMapper().readTree(text));
        }
        static long sumOf(JsonNode node) {
            if (node.isNumber()) return node.asLong();
            long sum = 0L;
            for (Iterator i = node.elements(); i.hasNext();) sum += sumOf((JsonNode) i.next());
            return sum;
        }
    }

    /** The clock of a query's trigger: parks its thread until it is granted a micro-batch. */
    public static class Gate implements org.apache.spark.util.Clock {
        final Gates gates;
        final String run;
        final StreamExecution x;
        final long intervalMs;
        final Semaphore grants = new Semaphore(0);
        volatile boolean open = false;
        volatile boolean parked = false;
        volatile Input[] inputs = new Input[0];
        boolean started = false;
        long turn = 0L;
        StreamingQueryProgress last = null;
        long dueMs = 0L;
        String reported = "";
        long looked = -1L;  // what the last report was made from
        Object limits = null;  // of its sources, as the program has set them

        Gate(Gates gates, String run, StreamExecution x, long intervalMs) {
            this.gates = gates;
            this.run = run;
            this.x = x;
            this.intervalMs = intervalMs;
            this.open = gates.open;
        }
        // Without an interval Spark's loop does not wait, but it asks for the time at its head.
        public long getTimeMillis() {
            if (!open && (!started || intervalMs == 0L) && calledFromLoop()) park(0L);
            return System.currentTimeMillis();
        }
        public long nanoTime() { return System.nanoTime(); }
        public long waitTillTime(long dueMs) {
            if (open) {  // as the clock that this one stands for
                long left = dueMs - System.currentTimeMillis();
                try { if (left > 0L) Thread.sleep(left); }
                catch (InterruptedException stopped) { rethrow(stopped); }
            } else park(dueMs);
            return System.currentTimeMillis();
        }
        static void rethrow(Throwable failure) {
            org.apache.spark.unsafe.Platform.throwException(failure);
        }
        static boolean calledFromLoop() {
            StackTraceElement[] frames = new Throwable().getStackTrace();
            for (int i = 0; i < frames.length && i < 5; i++)
                if (frames[i].getClassName().endsWith(".ProcessingTimeExecutor")) return true;
            return false;
        }
        void park(long dueMs) {
            boolean first = !started;
            started = true;
            if (open) return;
            if (first) inputs = inputs();
            HashMap event = event("ready", run);
            synchronized (this) {
                this.dueMs = dueMs;
                parked = true;
                try { describe(event); }
                catch (Throwable failure) { event.put("trouble", String.valueOf(failure)); }
            }
            gates.tell(event);
            try { grants.acquire(); } catch (InterruptedException stopped) { rethrow(stopped); }
            finally { parked = false; }
        }
        synchronized boolean grant(String units) {
            if (!parked) return false;  // inside a micro-batch, which may hang
            parked = false;  // from here on the query's thread alone touches its sources
            limit(units);
            turn++;
            grants.release();
            return true;
        }
        synchronized void open() {
            limit("");
            open = true;
            parked = false;
            grants.release();
        }
        /** How much the next micro-batch takes at most; all there is where internals are missing. */
        void limit(String units) {
            try {
                Object now = call(x, "uniqueSources");
                if (limits == null && !((scala.collection.Map) now).isEmpty()) limits = now;
                Object limited = limits == null ? now : limited(units);
                if (limited == now) return;
                Class[] map = new Class[] {scala.collection.immutable.Map.class};
                x.getClass().getMethod("uniqueSources_$eq", map).invoke(x, new Object[] {limited});
            } catch (Throwable missing) { return; }
        }
        /** The limits of its sources; what the program has set stays an upper bound. */
        Object limited(String units) {
            scala.collection.immutable.Map own = (scala.collection.immutable.Map) limits;
            Object limited = own;
            String[] most = units.length() == 0 ? new String[0] : units.split(",");
            for (int s = 0; s < most.length && s < inputs.length; s++) {
                Object source = inputs[s].source;
                scala.Option before = own.get(source);
                // Of a source that no feed knows, it is not known which limits it takes.
                if (inputs[s].feed == null || !before.isDefined()
                    || !(source instanceof SupportsAdmissionControl)) continue;
                boolean files = inputs[s].feed instanceof FileFeed;
                Object least = least((ReadLimit) before.get(), Long.parseLong(most[s]), files);
                limited = ((scala.collection.immutable.Map) limited).updated(source, least);
            }
            return limited;
        }
        static ReadLimit least(ReadLimit own, long units, boolean files) {
            if (own instanceof ReadMaxFiles)
                return ReadLimit.maxFiles((int) Math.min(units, ((ReadMaxFiles) own).maxFiles()));
            if (own instanceof ReadMaxRows)
                return ReadLimit.maxRows(Math.min(units, ((ReadMaxRows) own).maxRows()));
            if (!(own instanceof ReadAllAvailable)) return own;
            return files ? ReadLimit.maxFiles((int) Math.min(units, Integer.MAX_VALUE))
                : ReadLimit.maxRows(units);
        }
        Input[] inputs() {
            List sources = scala.jdk.javaapi.CollectionConverters.asJava(x.sources());
            Input[] found = new Input[sources.size()];
            for (int s = 0; s < found.length; s++) found[s] = new Input(gates, sources.get(s));
            return found;
        }
        /** The micro-batch that ended, if one did, and what waits now. */
        void describe(HashMap event) throws Exception {
            event.put("turn", Long.valueOf(turn));
            event.put("due", Long.valueOf(dueMs));
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
            ArrayList sources = new ArrayList();
            for (int s = 0; s < inputs.length; s++) {
                Input input = inputs[s];
                HashMap about = new HashMap();
                about.put("name", input.name);
                about.put("probed", Boolean.valueOf(input.feed != null));
                about.put("rows", Long.valueOf(s < read.length ? read[s].numInputRows() : 0L));
                if (input.feed != null) {
                    long at = input.feed.position(input, x.committedOffsets());
                    // Where it began is not known before its first trigger: what lies before that
                    // offset it has not read.
                    boolean known = turn > 0L && input.position >= 0L;
                    about.put("units", Long.valueOf(
                        known ? Math.max(0L, at - input.position) : 0L));
                    input.position = at;
                }
                sources.add(about);
            }
            event.put("sources", sources);
            event.put("left", waiting());
            reported = "";
            looked = -1L;
        }
        static boolean timers(StateOperatorProgress[] operators) {
            for (int i = 0; i < operators.length; i++) {
                String name = operators[i].operatorName();
                if (name.startsWith("flatMapGroupsWithState") || name.startsWith("transformWith")
                    || name.startsWith("applyInPandasWithState")) return true;
            }
            return false;
        }
        List waiting() throws Exception {
            ArrayList found = new ArrayList();
            if (System.currentTimeMillis() < dueMs) return found;  // its interval is not over
            for (int s = 0; s < inputs.length; s++)
                if (inputs[s].feed != null)
                    inputs[s].feed.waiting(inputs[s], s, found, x.committedOffsets());
            return found;
        }
        /** Reports what waits where that has changed, and whether somebody waits for the query. */
        void report() {
            try {
                HashMap event = event("waiting", run);
                synchronized (this) {
                    if (!parked || turn == 0L) return;
                    long version = 0L;
                    for (int s = 0; s < inputs.length; s++) {
                        if (inputs[s].feed == null) continue;
                        version += inputs[s].feed.version;
                        if (inputs[s].feed.trouble != null)
                            throw new IllegalStateException(inputs[s].feed.trouble);
                    }
                    boolean over = System.currentTimeMillis() >= dueMs;
                    boolean awaited = over && awaited();
                    // Most of the time nothing has changed, and finding out must cost nothing.
                    long seen = version * 4L + (over ? 2L : 0L) + (awaited ? 1L : 0L);
                    if (seen == looked) return;
                    looked = seen;
                    event.put("turn", Long.valueOf(turn));
                    event.put("waiting", waiting());
                    event.put("awaited", Boolean.valueOf(awaited));
                    String text = gates.json.writeValueAsString(event);
                    if (text.equals(reported)) return;
                    reported = text;
                }
                gates.tell(event);
            } catch (Throwable failure) {
                // An internal is missing, or the source is being closed: empty grants remain.
                looked = -1L;
                HashMap event = event("trouble", run);
                event.put("error", String.valueOf(failure));
                if (!reported.equals(String.valueOf(failure))) gates.tell(event);
                reported = String.valueOf(failure);
            }
        }
        /** Whether a thread is inside {@code processAllAvailable}. */
        boolean awaited() {
            try {
                ReentrantLock lock = (ReentrantLock) call(x, "awaitProgressLock");
                Condition progress = (Condition) call(x, "awaitProgressLockCondition");
                if (!lock.tryLock()) return false;
                try { return lock.hasWaiters(progress); } finally { lock.unlock(); }
            } catch (Exception missing) { return false; }
        }
    }
}
