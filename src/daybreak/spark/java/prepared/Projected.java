package daybreak.prepared;

import daybreak.tasks.Lists;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.Partition;
import org.apache.spark.TaskContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection$;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.RDDScanExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.types.StructType;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.reflect.ClassTag$;

/**
 * Projections over a train, as the filters of a cell are. Spark writes the source code of a
 * projection again in every task, and compiles it once: for a hundred queries over eighty rows that
 * takes twenty times as long as the rows. A copy of a plan keeps its projections.
 */
public class Projected extends RDD<InternalRow> {
    private static final long serialVersionUID = 1L;

    private final Train train;
    private final StructType columns;
    /** What is computed and of which columns, the first one first. */
    private final ArrayList<Seq<Expression>> expressions;
    private final ArrayList<Seq<Attribute>> inputs;
    /** Made by the first task of this copy. */
    private transient List<UnsafeProjection> projections;

    private Projected(
        Train train, ArrayList<Seq<Expression>> expressions, ArrayList<Seq<Attribute>> inputs
    ) {
        super(train, ClassTag$.MODULE$.<InternalRow>apply(InternalRow.class));
        this.train = train;
        this.columns = train.columns();
        this.expressions = expressions;
        this.inputs = inputs;
    }

    /** The rows of a plan that is nothing but projections over a train; null of any other. */
    static Projected of(SparkPlan plan) {
        ArrayList<Seq<Expression>> expressions = new ArrayList<>();
        ArrayList<Seq<Attribute>> inputs = new ArrayList<>();
        SparkPlan below = plan;
        while (below instanceof ProjectExec) {
            ProjectExec project = (ProjectExec) below;
            below = (SparkPlan) project.children().head();
            List<Expression> computed = new ArrayList<>();
            for (Object expression : Lists.list(project.projectList())) {
                computed.add((Expression) expression);
            }
            expressions.add(0, Lists.seq(computed));
            inputs.add(0, below.output());
        }
        if (expressions.isEmpty() || !Plans.isTrain(below)) {
            return null;
        }
        return new Projected((Train) ((RDDScanExec) below).rdd(), expressions, inputs);
    }

    @Override
    public Partition[] getPartitions() {
        return train.partitions();
    }

    @Override
    public Iterator<InternalRow> compute(Partition partition, TaskContext context) {
        if (projections == null) {
            projections = made();
        }
        for (UnsafeProjection projection : projections) {
            projection.initialize(partition.index());
        }
        return new Computing(train.iterator(partition, context), projections);
    }

    private List<UnsafeProjection> made() {
        UnsafeProjection$ maker = UnsafeProjection$.MODULE$;
        List<UnsafeProjection> found = new ArrayList<>();
        // Columns of Arrow take a call for each value that is read, and filters read it often.
        found.add(maker.create(columns));
        for (int i = 0; i < expressions.size(); i++) {
            found.add(maker.create(
                (Seq<Expression>) expressions.get(i), (Seq<Attribute>) inputs.get(i)));
        }
        return found;
    }
}

/** Rows as they leave the last of some projections. */
class Computing extends AbstractIterator<InternalRow> {
    private final Iterator<InternalRow> rows;
    private final List<UnsafeProjection> projections;

    Computing(Iterator<InternalRow> rows, List<UnsafeProjection> projections) {
        this.rows = rows;
        this.projections = projections;
    }

    @Override
    public boolean hasNext() {
        return rows.hasNext();
    }

    @Override
    public InternalRow next() {
        InternalRow row = (InternalRow) rows.next();
        for (UnsafeProjection projection : projections) {
            row = projection.apply(row);
        }
        return row;
    }
}
