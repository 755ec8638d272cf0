package daybreak.governed;

import java.util.Collection;
import java.util.List;

/** What a source holds, in groups that were first seen together. Guarded by itself. */
abstract class Feed {
    String trouble = null;
    /** Another one whenever something was added. */
    volatile long version = 0L;

    /** Asks the source of a parked query, which may take long; false if it cannot yet. */
    abstract boolean look(Object source, Object committed);

    /** Adds [arrival ms, source index, units] of each group that holds something new. */
    abstract void waiting(Input input, int index, List<Object> found, Object committed)
        throws Exception;

    /** How far the query has come, in units that only grow; -1: not known yet. */
    abstract long position(Input input, Object committed) throws Exception;

    /** Forgets what all have read; false if nobody reads it. */
    abstract boolean trim(Collection<Gate> gates);
}
