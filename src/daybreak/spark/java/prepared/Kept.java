package daybreak.prepared;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.NoSuchElementException;
import org.apache.spark.sql.catalyst.InternalRow;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;

/** Rows that some query keeps: a bit of one of the first columns is set. Notes which ones. */
class Kept extends AbstractIterator<InternalRow> {
    private final Iterator<InternalRow> rows;
    private final int masks;
    private InternalRow next;
    private int read = 0;
    private int count = 0;
    private int[] places = new int[1 << 12];

    Kept(Iterator<InternalRow> rows, int masks) {
        this.rows = rows;
        this.masks = masks;
    }

    @Override
    public boolean hasNext() {
        while (next == null && rows.hasNext()) {
            InternalRow row = (InternalRow) rows.next();
            for (int i = 0; i < masks && next == null; i++) {
                next = row.getLong(i) != 0L ? row : null;
            }
            read++;
        }
        return next != null;
    }

    @Override
    public InternalRow next() {
        if (!hasNext()) {
            throw new NoSuchElementException();
        }
        if (count == places.length) {
            places = Arrays.copyOf(places, 2 * count);
        }
        places[count++] = read - 1;
        InternalRow row = next;
        next = null;
        return row;
    }

    /** The places of these rows among all, in the order of bytes that Python reads. */
    byte[] written() {
        ByteBuffer bytes = ByteBuffer.allocate(4 * count).order(ByteOrder.LITTLE_ENDIAN);
        bytes.asIntBuffer().put(places, 0, count);
        return bytes.array();
    }
}
