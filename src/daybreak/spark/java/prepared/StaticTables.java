package daybreak.prepared;

import daybreak.tasks.Lists;
import java.util.List;
import org.apache.spark.sql.execution.RDDScanExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.columnar.InMemoryTableScanExec;

/** The static tables of a plan: rows in memory, which stay as they are while it is kept. */
final class StaticTables {
    private StaticTables() {
    }

    /** Raises {@code Unfit} if a part of a plan depends on a stream, or on rows that may change. */
    static void require(SparkPlan plan, String what) throws Exception {
        for (SparkPlan subquery : Lists.list(plan.subqueries())) {
            require(subquery, what);
        }
        List<SparkPlan> children = Lists.list(plan.children());
        for (SparkPlan child : children) {
            require(child, what);
        }
        if (Plans.isTrain(plan)) {
            throw new Unfit(what + " depends on a stream");
        }
        if (children.isEmpty()) {
            requireFixed(plan);
        }
    }

    private static void requireFixed(SparkPlan leaf) throws Exception {
        String name = Plans.name(leaf);
        if (name.equals("LocalTableScanExec") || name.equals("OneRowRelationExec")
            || name.equals("RangeExec")) {
            return;
        }
        if (leaf instanceof RDDScanExec && Plans.isInMemory(((RDDScanExec) leaf).rdd())) {
            return;
        }
        if (leaf instanceof InMemoryTableScanExec) {
            require(((InMemoryTableScanExec) leaf).relation().cachedPlan(), "a cached table");
            return;
        }
        throw new Unfit("a static table is read by " + name + ", and may change unnoticed");
    }
}
