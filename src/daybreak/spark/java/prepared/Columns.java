package daybreak.prepared;

import daybreak.tasks.Lists;
import daybreak.tasks.Names;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.types.StructType;

/** Which columns of its leaves a plan reads. The others are not handed over. */
class Columns {
    private final SparkSession session;
    private final StructType[] streams;
    /** Of each leaf, the positions of the columns that are read; null: of all. */
    private final List<TreeSet<Integer>> reads = new ArrayList<>();

    Columns(SparkSession session, StructType[] streams, LogicalPlan plan) {
        this.session = session;
        this.streams = streams;
        for (int i = 0; i < streams.length; i++) {
            reads.add(new TreeSet<Integer>());
        }
        read(plan, null);
    }

    /** The positions of the columns of a leaf that are read, as a text; empty: of all. */
    String reads(int leaf) {
        TreeSet<Integer> found = (TreeSet<Integer>) reads.get(leaf);
        if (found == null) {
            return "";
        }
        if (found.isEmpty()) {
            return "0"; // how many rows there are matters still
        }
        String text = found.toString();
        return text.substring(1, text.length() - 1);
    }

    /** Notes what is read of leaves; needed: ids of columns that operators above read, or null. */
    private void read(LogicalPlan plan, Set<Long> needed) {
        if (Plans.isTrain(plan)) {
            int number = Plans.number(plan);
            TreeSet<Integer> found = (TreeSet<Integer>) reads.get(number);
            if (needed == null || found == null) {
                reads.set(number, null);
                return;
            }
            List<Attribute> output = Lists.list(plan.output());
            for (int i = 0; i < output.size(); i++) {
                if (needed.contains(id((Attribute) output.get(i)))) {
                    found.add(Integer.valueOf(i));
                }
            }
        } else if (plan instanceof Project || plan instanceof Aggregate) {
            read((LogicalPlan) plan.children().head(), references(plan));
        } else if (plan instanceof Filter && needed != null) {
            Set<Long> more = references(plan);
            more.addAll(needed);
            read((LogicalPlan) plan.children().head(), more);
        } else {
            for (LogicalPlan child : Lists.list(plan.children())) {
                read(child, null);
            }
        }
    }

    /** The plan over leaves that have only the columns that are read. */
    LogicalPlan narrow(LogicalPlan plan) {
        if (Plans.isTrain(plan)) {
            return narrowLeaf(plan);
        }
        List<LogicalPlan> changed = new ArrayList<>();
        for (LogicalPlan child : Lists.list(plan.children())) {
            changed.add(narrow(child));
        }
        return changed.isEmpty() ? plan : (LogicalPlan) plan.withNewChildren(Lists.seq(changed));
    }

    private LogicalPlan narrowLeaf(LogicalPlan leaf) {
        int number = Plans.number(leaf);
        TreeSet<Integer> found = (TreeSet<Integer>) reads.get(number);
        if (found == null || found.size() == streams[number].length()) {
            return leaf;
        }
        List<Attribute> output = Lists.list(leaf.output());
        List<Attribute> attributes = new ArrayList<>();
        StructType columns = new StructType();
        for (String position : reads(number).split(", ")) {
            int at = Integer.parseInt(position);
            columns = columns.add(streams[number].fields()[at]);
            attributes.add((Attribute) output.get(at));
        }
        Train rows = new Train(session.sparkContext(), number, columns);
        LogicalPlan made =
            session.internalCreateDataFrame(rows, columns, false).queryExecution().analyzed();
        return Names.as(attributes, made);
    }

    private static Set<Long> references(LogicalPlan plan) {
        Set<Long> found = new HashSet<>();
        for (Attribute attribute : Lists.list(plan.references().toSeq())) {
            found.add(id(attribute));
        }
        return found;
    }

    private static Long id(Attribute attribute) {
        return Long.valueOf(attribute.exprId().id());
    }
}
