package daybreak.tasks;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import scala.Option$;

/** Puts rows into the place of a plan's leaf. */
public class Names {
    private Names() {}

    /** The rows, with their columns known by the names and ids of the leaf's, in this order. */
    public static LogicalPlan as(List<Attribute> leaf, LogicalPlan rows) {
        List<Attribute> fresh = Lists.list(rows.output());
        List<NamedExpression> named = new ArrayList<>();
        for (int i = 0; i < fresh.size(); i++) {
            Attribute old = (Attribute) leaf.get(i);
            named.add(new Alias(
                (Attribute) fresh.get(i), old.name(), old.exprId(), Lists.<String>none(),
                Option$.MODULE$.empty(), Lists.<String>none()));
        }
        return new Project(Lists.seq(named), rows);
    }
}
