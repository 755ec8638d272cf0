package daybreak.prepared;

import daybreak.tasks.Lists;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.planning.ExtractEquiJoinKeys$;
import org.apache.spark.sql.catalyst.plans.RightOuter$;
import org.apache.spark.sql.catalyst.plans.logical.BROADCAST$;
import org.apache.spark.sql.catalyst.plans.logical.HintInfo;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.JoinHint;
import org.apache.spark.sql.catalyst.plans.logical.JoinStrategyHint;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.SHUFFLE_HASH$;
import org.apache.spark.sql.execution.LogicalRDD;
import scala.Option;
import scala.Option$;

/** Joins of streams by a hash table, since there is little to sort; static rows broadcast. */
class Joins {
    private Joins() {}

    /** The plan with a hint at each join that has none. */
    static LogicalPlan hinted(LogicalPlan plan) {
        List<LogicalPlan> changed = new ArrayList<>();
        for (LogicalPlan child : Lists.list(plan.children())) {
            changed.add(hinted(child));
        }
        if (changed.isEmpty()) {
            return plan;
        }
        LogicalPlan made = (LogicalPlan) plan.withNewChildren(Lists.seq(changed));
        if (!(made instanceof Join)) {
            return made;
        }
        Join join = (Join) made;
        boolean asked = join.hint().leftHint().isDefined() || join.hint().rightHint().isDefined();
        JoinHint hint = asked ? null : hint(join);
        return hint == null
            ? join
            : new Join(join.left(), join.right(), join.joinType(), join.condition(), hint);
    }

    private static JoinHint hint(Join join) {
        boolean left = readsStream(join.left());
        boolean right = readsStream(join.right());
        Option<HintInfo> none = Option$.MODULE$.empty();
        if (left && right) {
            if (ExtractEquiJoinKeys$.MODULE$.unapply(join).isEmpty()) {
                return null;
            }
            // Of an outer join, the side whose rows are not all kept.
            Option<HintInfo> hash = hint(SHUFFLE_HASH$.MODULE$);
            return join.joinType() == RightOuter$.MODULE$
                ? new JoinHint(hash, none) : new JoinHint(none, hash);
        }
        // Spark does not know how large rows are that a program has made, and would rather sort.
        if (left && isInMemory(join.right())) {
            return new JoinHint(none, hint(BROADCAST$.MODULE$));
        }
        return right && isInMemory(join.left())
            ? new JoinHint(hint(BROADCAST$.MODULE$), none) : null;
    }

    private static Option<HintInfo> hint(JoinStrategyHint strategy) {
        return Option$.MODULE$.apply(new HintInfo(Option$.MODULE$.apply(strategy)));
    }

    private static boolean isInMemory(LogicalPlan plan) {
        if (plan instanceof LogicalRDD) {
            return Plans.isInMemory(((LogicalRDD) plan).rdd());
        }
        List<LogicalPlan> children = Lists.list(plan.children());
        boolean found = !children.isEmpty();
        for (LogicalPlan child : children) {
            found &= isInMemory(child);
        }
        return found;
    }

    private static boolean readsStream(LogicalPlan plan) {
        boolean found = Plans.isTrain(plan);
        for (LogicalPlan child : Lists.list(plan.children())) {
            found |= readsStream(child);
        }
        return found;
    }
}
