package daybreak.prepared;

import daybreak.tasks.Lists;
import java.util.List;
import org.apache.spark.Dependency;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.LogicalRDD;
import org.apache.spark.sql.execution.RDDScanExec;
import org.apache.spark.sql.execution.SparkPlan;

/** What is asked of plans everywhere: leaves, and rows in memory. */
class Plans {
    private Plans() {}

    /** The name of a plan's class. */
    static String name(SparkPlan plan) {
        return plan.getClass().getSimpleName();
    }

    static boolean isTrain(LogicalPlan plan) {
        return plan instanceof LogicalRDD && ((LogicalRDD) plan).rdd() instanceof Train;
    }

    static boolean isTrain(SparkPlan plan) {
        return plan instanceof RDDScanExec && ((RDDScanExec) plan).rdd() instanceof Train;
    }

    /** The number of a leaf that is a train. */
    static int number(LogicalPlan leaf) {
        return ((Train) ((LogicalRDD) leaf).rdd()).number();
    }

    /** Whether rows were given by the driver, and are not read from somewhere with every job. */
    static boolean isInMemory(RDD<?> rdd) {
        List<Dependency<?>> dependencies = Lists.list(rdd.dependencies());
        for (Dependency<?> dependency : dependencies) {
            if (!isInMemory(dependency.rdd())) {
                return false;
            }
        }
        return !dependencies.isEmpty()
            || rdd.getClass().getSimpleName().equals("ParallelCollectionRDD");
    }
}
