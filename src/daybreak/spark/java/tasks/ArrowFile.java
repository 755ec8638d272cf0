package daybreak.tasks;

import java.io.BufferedOutputStream;
import java.io.DataOutputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.arrow.ArrowConverters$;
import org.apache.spark.sql.types.StructType;
import scala.collection.Iterator;

/** Writes rows to a file that Python reads: Arrow streams, each behind its length. */
public class ArrowFile {
    private final DataOutputStream out;
    private final StructType schema;
    private final boolean largeTypes;
    private final long mostBytes;

    /** Strings and binaries take offsets of 8 bytes instead of 4 if the types are large. */
    public ArrowFile(String path, StructType schema, boolean largeTypes, long mostBytes)
        throws IOException {
        this.out = new DataOutputStream(
            new BufferedOutputStream(new FileOutputStream(path), 1 << 16));
        this.schema = schema;
        this.largeTypes = largeTypes;
        this.mostBytes = mostBytes;
    }

    /** Adds rows. False, with the file cut short: they take more bytes than there may be. */
    public boolean write(Iterator<InternalRow> rows) throws IOException {
        Iterator<byte[]> batches = ArrowConverters$.MODULE$.toBatchWithSchemaIterator(
            rows, schema, 1L << 17, 1L << 24, "UTC", true, largeTypes);
        while (batches.hasNext()) {
            byte[] batch = (byte[]) batches.next();
            if (out.size() + 4L + batch.length > mostBytes) {
                return false;
            }
            out.writeInt(batch.length);
            out.write(batch);
        }
        return true;
    }

    /** Bytes that were written so far. */
    public long size() {
        return out.size();
    }

    public void close() throws IOException {
        out.close();
    }
}
