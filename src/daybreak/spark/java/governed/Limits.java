package daybreak.governed;

import org.apache.spark.sql.connector.read.streaming.ReadAllAvailable;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReadMaxFiles;
import org.apache.spark.sql.connector.read.streaming.ReadMaxRows;
import org.apache.spark.sql.connector.read.streaming.SupportsAdmissionControl;
import org.apache.spark.sql.execution.streaming.*;
import org.apache.spark.sql.execution.streaming.runtime.*;

/** How much a query's micro-batches take at most. Guarded by its gate. */
class Limits {
    private final StreamExecution x;
    /** Of its sources, as the program has set them; null before they are there. */
    private scala.collection.immutable.Map<Object, Object> own = null;

    Limits(StreamExecution x) {
        this.x = x;
    }

    /** How much the next micro-batch takes at most; all there is where internals are missing. */
    void limit(Input[] inputs, String units) {
        try {
            scala.collection.immutable.Map<Object, Object> now = present();
            if (own == null && !now.isEmpty()) {
                own = now;
            }
            scala.collection.immutable.Map<Object, Object> limited =
                own == null ? now : limited(inputs, units);
            if (limited != now) {
                Class<?>[] kinds = {scala.collection.immutable.Map.class};
                x.getClass().getMethod("uniqueSources_$eq", kinds)
                    .invoke(x, new Object[] {limited});
            }
        } catch (Throwable missing) {
            return;
        }
    }

    @SuppressWarnings("unchecked")  // what reflection returns has no type arguments
    private scala.collection.immutable.Map<Object, Object> present() throws Exception {
        return (scala.collection.immutable.Map<Object, Object>) Internals.call(x, "uniqueSources");
    }

    /** The limits of its sources; what the program has set stays an upper bound. */
    @SuppressWarnings("unchecked")  // javac sees a raw type in what Scala returns
    private scala.collection.immutable.Map<Object, Object> limited(Input[] inputs, String units) {
        scala.collection.immutable.Map<Object, Object> limited = own;
        String[] most = units.length() == 0 ? new String[0] : units.split(",");
        for (int s = 0; s < most.length && s < inputs.length; s++) {
            Object source = inputs[s].source;
            scala.Option<Object> before = own.get(source);
            // Of a source that no feed knows, it is not known which limits it takes.
            if (inputs[s].feed == null || !before.isDefined()
                || !(source instanceof SupportsAdmissionControl)) {
                continue;
            }
            boolean files = inputs[s].feed instanceof FileFeed;
            Object least = least((ReadLimit) before.get(), Long.parseLong(most[s]), files);
            limited = (scala.collection.immutable.Map<Object, Object>)
                limited.updated(source, least);
        }
        return limited;
    }

    private static ReadLimit least(ReadLimit own, long units, boolean files) {
        if (own instanceof ReadMaxFiles) {
            return ReadLimit.maxFiles((int) Math.min(units, ((ReadMaxFiles) own).maxFiles()));
        }
        if (own instanceof ReadMaxRows) {
            return ReadLimit.maxRows(Math.min(units, ((ReadMaxRows) own).maxRows()));
        }
        if (!(own instanceof ReadAllAvailable)) {
            return own;
        }
        return files
            ? ReadLimit.maxFiles((int) Math.min(units, Integer.MAX_VALUE))
            : ReadLimit.maxRows(units);
    }
}
