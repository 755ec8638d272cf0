package daybreak.governed;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.SupportsAdmissionControl;
import scala.jdk.javaapi.CollectionConverters;

/** A source whose offsets are numbers, such as a topic; the unit is one of them. */
class OffsetFeed extends Feed {
    /** {sum of the offsets, arrival ms}. */
    private final List<long[]> marks = new ArrayList<>();

    @Override
    boolean look(Object source, Object committed) {
        Object from = committed(source, committed);
        if (from == null) {
            return false;  // before its first trigger
        }
        try {
            mark(sum(source instanceof SupportsAdmissionControl
                ? ((SupportsAdmissionControl) source).latestOffset(
                    (Offset) from, ReadLimit.allAvailable())
                : ((MicroBatchStream) source).latestOffset()));
            trouble = null;
        } catch (Throwable failure) {
            trouble = String.valueOf(failure);
        }
        return true;
    }

    private synchronized void mark(long sum) {
        long before = marks.isEmpty() ? Long.MIN_VALUE : ((long[]) marks.get(marks.size() - 1))[0];
        if (sum <= before) {
            return;
        }
        marks.add(new long[] {sum, System.currentTimeMillis()});
        version++;
    }

    @Override
    synchronized void waiting(Input input, int index, List<Object> found, Object committed)
        throws Exception {
        long at = position(input, committed);
        if (at < 0L) {
            return;
        }
        for (long[] mark : marks) {
            if (mark[0] <= at) {
                continue;
            }
            found.add(new long[] {mark[1], index, mark[0] - at});
            at = mark[0];
        }
    }

    @Override
    long position(Input input, Object committed) throws Exception {
        Object offset = committed(input.source, committed);
        return offset != null ? sum(offset) : -1L;
    }

    @Override
    synchronized boolean trim(Collection<Gate> gates) {
        long least = Long.MAX_VALUE;
        boolean used = false;
        for (Gate gate : gates) {
            for (Input input : gate.inputs) {
                if (input.feed == this) {
                    used = true;
                    least = Math.min(least, input.position);
                }
            }
        }
        while (marks.size() > 1 && ((long[]) marks.get(0))[0] <= least) {
            marks.remove(0);
        }
        return used;
    }

    /** The offset up to which a query has read a source; null before its first micro-batch. */
    private static Object committed(Object source, Object committed) {
        return CollectionConverters.asJava((scala.collection.Map<?, ?>) committed).get(source);
    }

    private static long sum(Object offset) throws Exception {
        return sumOf(new ObjectMapper().readTree(((Offset) offset).json()));
    }

    private static long sumOf(JsonNode node) {
        if (node.isNumber()) {
            return node.asLong();
        }
        long sum = 0L;
        for (JsonNode element : node) {
            sum += sumOf(element);
        }
        return sum;
    }
}
