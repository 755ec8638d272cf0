package daybreak.governed;

import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import scala.jdk.javaapi.CollectionConverters;

/** Files of a folder; the unit is a file. */
class FileFeed extends Feed {
    /** Entries that came together, each {path, Long timestamp}. */
    private final List<Object[][]> groups = new ArrayList<>();
    private Set<Object> known = new HashSet<>();
    private int dropped = 0;
    private long listedMs = 0L;
    private boolean flat = false;

    /** Another query comes, to which all files may be new. */
    synchronized void join() {
        version++;
        known = new HashSet<>();
        dropped += groups.size();
        groups.clear();
        listedMs = 0L;
    }

    /** Whether a folder without subfolders shows by its own time that nothing was added. */
    private boolean unchanged(Object source, long now) throws Exception {
        if (!flat || now - listedMs > 5000L) {
            return false;
        }
        long changed = ((FileSystem) Internals.field(source, "fs"))
            .getFileStatus((Path) Internals.field(source, "qualifiedBasePath"))
            .getModificationTime();
        return changed > 0L && changed < listedMs - 1000L;
    }

    @Override
    boolean look(Object source, Object committed) {
        try {
            long now = System.currentTimeMillis();
            if (!unchanged(source, now)) {
                listedMs = now;
                take((Path) Internals.field(source, "qualifiedBasePath"),
                    Internals.call(source, "fetchAllFiles"));
            }
            trouble = null;
        } catch (Throwable failure) {
            trouble = String.valueOf(failure);
        }
        return true;
    }

    private synchronized void take(Path folder, Object listed) throws Exception {
        Set<Object> paths = new HashSet<>();
        List<Object[]> fresh = new ArrayList<>();
        flat = true;
        for (Object entry : CollectionConverters.asJava((scala.collection.Iterable<?>) listed)) {
            Object path = Internals.call(entry, "path");
            paths.add(path);
            flat = flat && folder.equals(((Path) Internals.call(path, "toPath")).getParent());
            if (!known.contains(path)) {
                fresh.add(new Object[] {path, Internals.call(entry, "timestamp")});
            }
        }
        known = paths;
        if (fresh.isEmpty()) {
            return;
        }
        groups.add((Object[][]) fresh.toArray(new Object[0][]));
        version++;
    }

    @Override
    synchronized void waiting(Input input, int index, List<Object> found, Object committed)
        throws Exception {
        Object seen = Internals.call(input.source, "seenFiles");
        Method isNew = null;
        for (Method method : seen.getClass().getMethods()) {
            if (method.getName().equals("isNewFile")) {
                isNew = method;
            }
        }
        input.first = Math.max(input.first, dropped);
        for (int g = input.first; g < dropped + groups.size(); g++) {
            long units = 0L;
            long arrival = Long.MAX_VALUE;
            for (Object[] entry : (Object[][]) groups.get(g - dropped)) {
                if (!((Boolean) isNew.invoke(seen, entry)).booleanValue()) {
                    continue;
                }
                units++;
                arrival = Math.min(arrival, ((Long) entry[1]).longValue());
            }
            if (units > 0L) {
                found.add(new long[] {arrival, index, units});
            } else if (g == input.first) {
                input.first = g + 1;
            }
        }
    }

    @Override
    long position(Input input, Object committed) throws Exception {
        Object seen = Internals.call(input.source, "seenFiles");
        return ((Number) Internals.call(seen, "size")).longValue();
    }

    @Override
    synchronized boolean trim(Collection<Gate> gates) {
        int first = Integer.MAX_VALUE;
        for (Gate gate : gates) {
            for (Input input : gate.inputs) {
                if (input.feed == this) {
                    first = Math.min(first, input.first);
                }
            }
        }
        while (first != Integer.MAX_VALUE && dropped < first && !groups.isEmpty()) {
            groups.remove(0);
            dropped++;
        }
        return first != Integer.MAX_VALUE;
    }
}
