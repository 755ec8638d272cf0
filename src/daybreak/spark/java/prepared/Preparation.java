package daybreak.prepared;

import daybreak.tasks.Lists;
import daybreak.tasks.LocalTasks;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.Dataset$;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.CollapseCodegenStages;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.AccumulatorV2;

/**
 * How a query's plan becomes one that runs without a Spark job. In Java, since it walks over plans:
 * from Python every step would be a call through the gateway, a thousand for one plan.
 */
public class Preparation {
    private final SparkSession session;
    private final Columns columns;
    private final String shape;
    private final TrainPlan plan;
    private final long bytes;

    /** Plans one query; raises {@code Unfit}. */
    public Preparation(Dataset<?> query, StructType[] streams) throws Exception {
        this.session = (SparkSession) query.sparkSession();
        LogicalPlan optimised = query.queryExecution().optimizedPlan();
        if (!optimised.deterministic()) {
            throw new Unfit("an expression is not deterministic");
        }
        this.columns = new Columns(session, streams, optimised);
        LogicalPlan narrow = columns.narrow(Joins.hinted(optimised));
        narrow.setAnalyzed();
        SparkPlan executed =
            Dataset$.MODULE$.ofRows(session, narrow).queryExecution().executedPlan();
        SinglePartition single = new SinglePartition(executed);
        // Static tables are read here, and broadcast.
        RDD<InternalRow> rdd = Projected.of(single.plan());
        if (rdd == null) {
            rdd = new CollapseCodegenStages(new AtomicInteger(0)).apply(single.plan()).execute();
        }
        this.shape = single.shape();
        this.plan = new TrainPlan(rdd, query.schema(), LocalTasks.settings(session));
        this.bytes = plan.size() + broadcastBytes(single.plan());
    }

    public TrainPlan plan() {
        return plan;
    }

    /** The positions of the columns of a leaf that are read, as a text; empty: of all. */
    public String reads(int leaf) {
        return columns.reads(leaf);
    }

    /** What it does to the rows of streams that costs most. */
    public String shape() {
        return shape;
    }

    /** What it takes for as long as it is kept: the rows of static tables, mostly. */
    public long bytes() {
        return bytes;
    }

    private static long broadcastBytes(SparkPlan plan) {
        long found = 0L;
        if (Plans.name(plan).equals("BroadcastExchangeExec")) {
            Object size = ((AccumulatorV2<?, ?>) plan.metrics().apply("dataSize")).value();
            found = ((Long) size).longValue();
        }
        for (SparkPlan child : Lists.list(plan.children())) {
            found += broadcastBytes(child);
        }
        return found;
    }
}
