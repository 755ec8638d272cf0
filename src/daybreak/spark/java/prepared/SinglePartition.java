package daybreak.prepared;

import daybreak.tasks.Lists;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.plans.physical.Distribution;
import org.apache.spark.sql.execution.CoalesceExec;
import org.apache.spark.sql.execution.SparkPlan;
import scala.collection.immutable.Seq;

/**
 * A physical plan over one partition, without exchanges. Everything that Spark computes once and
 * keeps (a broadcast, a subquery) must not depend on a stream: it would give the rows of the first
 * train again and again.
 */
class SinglePartition {
    /** Operators whose output over the rows of a task depends on these rows alone. */
    private static final Set<String> OPERATORS = new HashSet<>(Arrays.asList(new String[] {
        "ProjectExec", "FilterExec", "GenerateExec", "ExpandExec", "UnionExec", "CoalesceExec",
        "HashAggregateExec", "ObjectHashAggregateExec", "SortAggregateExec", "SortExec",
        "SortMergeJoinExec", "ShuffledHashJoinExec", "CartesianProductExec",
        "BroadcastHashJoinExec", "BroadcastNestedLoopJoinExec",
        "LocalTableScanExec", "OneRowRelationExec"
    }));

    private final Set<String> operators = new HashSet<>();
    private final SparkPlan plan;

    /** Raises {@code Unfit} if there is no such plan. */
    SinglePartition(SparkPlan executed) throws Exception {
        this.plan = single(executed);
    }

    SparkPlan plan() {
        return plan;
    }

    /** What it does to the rows of streams that costs most. */
    String shape() {
        if (operators.contains("SortMergeJoinExec") || operators.contains("ShuffledHashJoinExec")
            || operators.contains("CartesianProductExec")) {
            return "join";
        }
        return operators.contains("HashAggregateExec") || operators.contains("SortAggregateExec")
            || operators.contains("ObjectHashAggregateExec") ? "aggregate" : "rows";
    }

    private SparkPlan single(SparkPlan plan) throws Exception {
        String name = Plans.name(plan);
        if (isStage(name)) {
            return single((SparkPlan) plan.children().head());
        }
        for (SparkPlan subquery : Lists.list(plan.subqueries())) {
            StaticTables.require(subquery, "a subquery");
        }
        if (name.equals("ShuffleExchangeExec")) {
            SparkPlan below = single((SparkPlan) plan.children().head());
            return partitions(below) == 1 ? below : new CoalesceExec(1, below);
        }
        if (name.equals("BroadcastExchangeExec")) {
            StaticTables.require(plan, "a broadcast");
            return withoutStages(plan);
        }
        if (Plans.isTrain(plan)) {
            return plan;
        }
        if (!OPERATORS.contains(name)) {
            throw new Unfit(name.replaceFirst("Exec$", "") + " is not known to be safe");
        }
        operators.add(name);
        return gathered(plan);
    }

    /** The operator over children that are one partition where it needs certain rows together. */
    private SparkPlan gathered(SparkPlan plan) throws Exception {
        List<SparkPlan> children = Lists.list(plan.children());
        List<Distribution> wanted = Lists.list(plan.requiredChildDistribution());
        List<Seq<SortOrder>> orders = Lists.list(plan.requiredChildOrdering());
        List<SparkPlan> changed = new ArrayList<>();
        for (int i = 0; i < children.size(); i++) {
            SparkPlan child = single((SparkPlan) children.get(i));
            String distribution = ((Distribution) wanted.get(i)).getClass().getSimpleName();
            if (!distribution.equals("UnspecifiedDistribution$")
                && !distribution.equals("BroadcastDistribution") && partitions(child) != 1) {
                if (!((Seq<SortOrder>) orders.get(i)).isEmpty()) {
                    throw new Unfit("sorted rows of several partitions");
                }
                child = new CoalesceExec(1, child);
            }
            changed.add(child);
        }
        return changed.isEmpty() ? plan : (SparkPlan) plan.withNewChildren(Lists.seq(changed));
    }

    /** In how many partitions rows come: 1, or more. Spark does not know this of our leaves. */
    private static int partitions(SparkPlan plan) {
        String name = Plans.name(plan);
        if (Plans.isTrain(plan) || name.equals("CoalesceExec")
            || name.equals("OneRowRelationExec")) {
            return 1;
        }
        if (name.equals("UnionExec") || name.equals("CartesianProductExec")
            || name.equals("LocalTableScanExec")) {
            return 2;
        }
        int most = 1;
        for (SparkPlan child : Lists.list(plan.children())) {
            if (!Plans.name(child).equals("BroadcastExchangeExec")) {
                most = Math.max(most, partitions(child));
            }
        }
        return most;
    }

    /** Generated code is put in again, for the whole of the new plan. */
    private static SparkPlan withoutStages(SparkPlan plan) {
        if (isStage(Plans.name(plan))) {
            return withoutStages((SparkPlan) plan.children().head());
        }
        List<SparkPlan> changed = new ArrayList<>();
        for (SparkPlan child : Lists.list(plan.children())) {
            changed.add(withoutStages(child));
        }
        return changed.isEmpty() ? plan : (SparkPlan) plan.withNewChildren(Lists.seq(changed));
    }

    private static boolean isStage(String name) {
        return name.equals("WholeStageCodegenExec") || name.equals("InputAdapter");
    }
}
