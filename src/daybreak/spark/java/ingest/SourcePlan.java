package daybreak.ingest;

import daybreak.tasks.Lists;
import daybreak.tasks.Names;
import daybreak.tasks.Only;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.Dependency;
import org.apache.spark.Partition;
import org.apache.spark.SparkContext;
import org.apache.spark.TaskContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.Dataset$;
import org.apache.spark.sql.classic.SparkSession;
import scala.collection.Iterator;
import scala.reflect.ClassTag$;

/** What a stream computes of each row of its source, such as the JSON of a record. */
class SourcePlan {
    /** Operators that treat each row by itself. */
    private static final Set<String> OPERATORS = new HashSet<>(Arrays.asList(
        new String[] {"Project", "Filter", "SubqueryAlias"}));

    private final SparkSession session;
    private final LogicalPlan analysed;
    private final LogicalPlan leaf;

    SourcePlan(SparkSession session, LogicalPlan analysed) {
        this.session = session;
        this.analysed = analysed;
        LogicalPlan below = analysed;
        while (!below.children().isEmpty()) {
            if (!OPERATORS.contains(below.nodeName())) {
                throw new Unread("it is read through " + below.nodeName());
            }
            below = (LogicalPlan) below.children().head();
        }
        this.leaf = below;
    }

    /** What reads the source. */
    LogicalPlan leaf() {
        return leaf;
    }

    boolean isLeaf() {
        return leaf == analysed;
    }

    /** The plan over these rows instead of its leaf, which has the same columns. */
    Dataset<?> over(Dataset<?> rows) {
        LogicalPlan fresh = rows.queryExecution().analyzed();
        LogicalPlan named = Names.as(Lists.list(leaf.output()), fresh);
        return Dataset$.MODULE$.ofRows(session, swapped(analysed, named));
    }

    private LogicalPlan swapped(LogicalPlan plan, LogicalPlan rows) {
        if (plan == leaf) {
            return rows;
        }
        List<LogicalPlan> changed = new ArrayList<>();
        changed.add(swapped((LogicalPlan) plan.children().head(), rows));
        return (LogicalPlan) plan.withNewChildren(Lists.seq(changed));
    }

    /** The plan, compiled, over whatever the source was given last. */
    RDD<InternalRow> compiled(SourceRows rows) {
        RDD<InternalRow> given = new Leaf(session.sparkContext(), rows);
        RDD<InternalRow> made =
            over(session.internalCreateDataFrame(given, rows.columns(), false))
                .queryExecution().toRdd();
        if (made.partitions().length != 1) {
            throw new Unread("its plan takes more than one partition");
        }
        return made;
    }
}

/** The leaf of a plan that runs on the caller's thread. */
class Leaf extends RDD<InternalRow> {
    private static final long serialVersionUID = 1L;

    private final transient SourceRows rows;

    Leaf(SparkContext context, SourceRows rows) {
        super(
            context, Lists.<Dependency<?>>none(), ClassTag$.MODULE$.apply(InternalRow.class));
        this.rows = rows;
    }

    @Override
    public Partition[] getPartitions() {
        return new Partition[] {new Only()};
    }

    @Override
    public Iterator<InternalRow> compute(Partition partition, TaskContext context) {
        return rows.read(context);
    }
}
