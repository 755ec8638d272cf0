package daybreak.ingest;

import daybreak.tasks.Lists;
import java.util.HashMap;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.InternalRow$;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.PartitionPath;
import org.apache.spark.sql.execution.datasources.PartitionSpec;
import org.apache.spark.sql.execution.datasources.PartitioningAwareFileIndex;
import org.apache.spark.sql.types.StructType;

/** The values that folders give to the rows of their files, {@code date=2026-01-01}. */
class FolderValues {
    private final StructType data;
    private final StructType partition;
    private final HashMap<Path, InternalRow> values = new HashMap<>();

    /** Of the files of a frame, as Spark reads them from their paths. */
    FolderValues(Dataset<?> files) {
        LogicalPlan plan = files.queryExecution().analyzed();
        HadoopFsRelation relation = (HadoopFsRelation) ((LogicalRelation) plan).relation();
        this.data = relation.dataSchema();
        this.partition = relation.partitionSchema();
        PartitionSpec spec = ((PartitioningAwareFileIndex) relation.location()).partitionSpec();
        for (PartitionPath folder : Lists.list(spec.partitions())) {
            values.put(folder.path(), folder.values());
        }
    }

    /** The columns that are in the files. */
    StructType data() {
        return data;
    }

    /** The columns that folders give. */
    StructType partition() {
        return partition;
    }

    /** The values for the rows of a file. */
    InternalRow of(Path file) {
        if (partition.isEmpty()) {
            return InternalRow$.MODULE$.empty();
        }
        InternalRow found = (InternalRow) values.get(file.getParent());
        if (found == null) {
            throw new IllegalStateException(
                "the folder of " + file + " gives no values to the columns "
                + String.join(", ", partition.fieldNames()));
        }
        return found;
    }
}
