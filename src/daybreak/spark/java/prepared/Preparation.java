// How a query's plan becomes one that runs without a Spark job. In Java, since it walks over plans:
// from Python every step would be a call through the gateway, a thousand for one plan.
package daybreak.prepared;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.Properties;
import java.util.TreeSet;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.Dependency;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.planning.ExtractEquiJoinKeys$;
import org.apache.spark.sql.catalyst.plans.RightOuter$;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.BROADCAST$;
import org.apache.spark.sql.catalyst.plans.logical.HintInfo;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.JoinHint;
import org.apache.spark.sql.catalyst.plans.logical.JoinStrategyHint;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.SHUFFLE_HASH$;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.Dataset$;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.CoalesceExec;
import org.apache.spark.sql.execution.CollapseCodegenStages;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.LogicalRDD;
import org.apache.spark.sql.execution.RDDScanExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.columnar.InMemoryTableScanExec;
import org.apache.spark.sql.execution.datasources.PartitioningAwareFileIndex;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.AccumulatorV2;
import scala.Option;
import scala.Option$;
import scala.collection.Iterator;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** One query: planned when it is made, or ``Unfit`` is thrown. */
public class Preparation {
    private final SparkSession session;
    private final StructType[] streams;
    private final Configuration hadoop;
    /** Of each leaf, the positions of the columns that are read; null: of all. */
    private final TreeSet[] reads;
    private final ArrayList files = new ArrayList();
    private final HashSet operators = new HashSet();
    private final TrainPlan plan;
    private final long bytes;

    public Preparation(Dataset query, StructType[] streams) throws Exception {
        this.session = (SparkSession) query.sparkSession();
        this.streams = streams;
        this.hadoop = session.sparkContext().hadoopConfiguration();
        this.reads = new TreeSet[streams.length];
        for (int i = 0; i < streams.length; i++) {
            reads[i] = new TreeSet();
        }
        LogicalPlan optimised = query.queryExecution().optimizedPlan();
        if (!optimised.deterministic()) {
            throw new Unfit("an expression is not deterministic");
        }
        read(optimised, null);
        LogicalPlan narrow = narrow(hinted(optimised));
        narrow.setAnalyzed();
        SparkPlan executed =
            Dataset$.MODULE$.ofRows(session, narrow).queryExecution().executedPlan();
        SparkPlan single = single(executed);
        FileStatus[] statuses = statuses();
        // Static tables are read here, and broadcast.
        RDD rdd = new CollapseCodegenStages(new AtomicInteger(0)).apply(single).execute();
        this.plan = new TrainPlan(rdd, query.schema(), settings(), statuses, hadoop);
        this.bytes = plan.size() + broadcastBytes(single);
    }

    /** What it takes for as long as it is kept: the rows of static tables, mostly. */
    public long bytes() {
        return bytes;
    }

    private static long broadcastBytes(SparkPlan plan) {
        long found = 0L;
        if (plan.getClass().getSimpleName().equals("BroadcastExchangeExec")) {
            Object size = ((AccumulatorV2) plan.metrics().apply("dataSize")).value();
            found = ((Long) size).longValue();
        }
        Object[] children = array(plan.children());
        for (int i = 0; i < children.length; i++) {
            found += broadcastBytes((SparkPlan) children[i]);
        }
        return found;
    }

    public TrainPlan plan() {
        return plan;
    }

    /** The positions of the columns of a leaf that are read, as a text; empty: of all. */
    public String reads(int leaf) {
        if (reads[leaf] == null) {
            return "";
        }
        if (reads[leaf].isEmpty()) {
            return "0"; // how many rows there are matters still
        }
        String text = reads[leaf].toString();
        return text.substring(1, text.length() - 1);
    }

    /** What it does to the rows of streams that costs most. */
    public String shape() {
        if (operators.contains("SortMergeJoinExec") || operators.contains("ShuffledHashJoinExec")
            || operators.contains("CartesianProductExec")) {
            return "join";
        }
        return operators.contains("HashAggregateExec") || operators.contains("SortAggregateExec")
            || operators.contains("ObjectHashAggregateExec") ? "aggregate" : "rows";
    }

    // Columns

    /** Notes what is read of leaves; ``needed``: ids of columns that operators above read, or null. */
    private void read(LogicalPlan plan, HashSet needed) {
        if (isLeaf(plan)) {
            int number = ((Train) ((LogicalRDD) plan).rdd()).number();
            if (needed == null || reads[number] == null) {
                reads[number] = null;
                return;
            }
            Object[] output = array(plan.output());
            for (int i = 0; i < output.length; i++) {
                if (needed.contains(id(output[i]))) {
                    reads[number].add(Integer.valueOf(i));
                }
            }
        } else if (plan instanceof Project || plan instanceof Aggregate) {
            read((LogicalPlan) plan.children().head(), references(plan));
        } else if (plan instanceof Filter && needed != null) {
            HashSet more = references(plan);
            more.addAll(needed);
            read((LogicalPlan) plan.children().head(), more);
        } else {
            Object[] children = array(plan.children());
            for (int i = 0; i < children.length; i++) {
                read((LogicalPlan) children[i], null);
            }
        }
    }

    /** The plan over leaves that have only the columns that are read. */
    private LogicalPlan narrow(LogicalPlan plan) {
        if (isLeaf(plan)) {
            return narrowLeaf(plan);
        }
        Object[] children = array(plan.children());
        if (children.length == 0) {
            return plan;
        }
        ArrayList changed = new ArrayList();
        for (int i = 0; i < children.length; i++) {
            changed.add(narrow((LogicalPlan) children[i]));
        }
        return (LogicalPlan) plan.withNewChildren(seq(changed));
    }

    private LogicalPlan narrowLeaf(LogicalPlan leaf) {
        int number = ((Train) ((LogicalRDD) leaf).rdd()).number();
        if (reads[number] == null || reads[number].size() == streams[number].length()) {
            return leaf;
        }
        Object[] output = array(leaf.output());
        ArrayList attributes = new ArrayList();
        StructType columns = new StructType();
        String[] positions = reads(number).split(", ");
        for (int i = 0; i < positions.length; i++) {
            int at = Integer.parseInt(positions[i]);
            columns = columns.add(streams[number].fields()[at]);
            attributes.add(output[at]);
        }
        Train rows = new Train(session.sparkContext(), number, columns);
        LogicalPlan made =
            session.internalCreateDataFrame(rows, columns, false).queryExecution().analyzed();
        Object[] fresh = array(made.output());
        ArrayList named = new ArrayList();
        for (int i = 0; i < fresh.length; i++) {
            Attribute old = (Attribute) attributes.get(i);
            named.add(new Alias(
                (Attribute) fresh[i], old.name(), old.exprId(), (Seq) Nil$.MODULE$,
                Option$.MODULE$.empty(), (Seq) Nil$.MODULE$));
        }
        return new Project(seq(named), made);
    }

    // Joins

    /** Joins of streams by a hash table, since there is little to sort; static rows broadcast. */
    private LogicalPlan hinted(LogicalPlan plan) {
        Object[] children = array(plan.children());
        if (children.length == 0) {
            return plan;
        }
        ArrayList changed = new ArrayList();
        for (int i = 0; i < children.length; i++) {
            changed.add(hinted((LogicalPlan) children[i]));
        }
        LogicalPlan made = (LogicalPlan) plan.withNewChildren(seq(changed));
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

    private JoinHint hint(Join join) {
        boolean left = readsStream(join.left());
        boolean right = readsStream(join.right());
        Option none = Option$.MODULE$.empty();
        if (left && right) {
            if (ExtractEquiJoinKeys$.MODULE$.unapply(join).isEmpty()) {
                return null;
            }
            // Of an outer join, the side whose rows are not all kept.
            Option hash = hint(SHUFFLE_HASH$.MODULE$);
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

    private static Option hint(JoinStrategyHint strategy) {
        return Option$.MODULE$.apply(new HintInfo(Option$.MODULE$.apply(strategy)));
    }

    private static boolean isInMemory(LogicalPlan plan) {
        if (plan instanceof LogicalRDD) {
            return isInMemory(((LogicalRDD) plan).rdd());
        }
        Object[] children = array(plan.children());
        boolean found = children.length > 0;
        for (int i = 0; i < children.length; i++) {
            found &= isInMemory((LogicalPlan) children[i]);
        }
        return found;
    }

    private static boolean readsStream(LogicalPlan plan) {
        boolean found = isLeaf(plan);
        Object[] children = array(plan.children());
        for (int i = 0; i < children.length; i++) {
            found |= readsStream((LogicalPlan) children[i]);
        }
        return found;
    }

    private static boolean isLeaf(LogicalPlan plan) {
        return plan instanceof LogicalRDD && ((LogicalRDD) plan).rdd() instanceof Train;
    }

    private static HashSet references(LogicalPlan plan) {
        HashSet found = new HashSet();
        Object[] attributes = array(plan.references().toSeq());
        for (int i = 0; i < attributes.length; i++) {
            found.add(id(attributes[i]));
        }
        return found;
    }

    private static Long id(Object attribute) {
        return Long.valueOf(((Attribute) attribute).exprId().id());
    }

    // Partitions. Everything that Spark computes once and keeps (a broadcast, a subquery) must not
    // depend on a stream: it would give the rows of the first train again and again.

    /** The same over one partition, without exchanges. */
    private SparkPlan single(SparkPlan plan) throws Exception {
        String name = plan.getClass().getSimpleName();
        if (isStage(name)) {
            return single((SparkPlan) plan.children().head());
        }
        Object[] subqueries = array(plan.subqueries());
        for (int i = 0; i < subqueries.length; i++) {
            requireStatic((SparkPlan) subqueries[i], "a subquery");
        }
        if (name.equals("ShuffleExchangeExec")) {
            SparkPlan below = single((SparkPlan) plan.children().head());
            return partitions(below) == 1 ? below : new CoalesceExec(1, below);
        }
        if (name.equals("BroadcastExchangeExec")) {
            requireStatic(plan, "a broadcast");
            return withoutStages(plan);
        }
        if (isTrain(plan)) {
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
        Object[] children = array(plan.children());
        Object[] wanted = array(plan.requiredChildDistribution());
        Object[] orders = array(plan.requiredChildOrdering());
        ArrayList changed = new ArrayList();
        for (int i = 0; i < children.length; i++) {
            SparkPlan child = single((SparkPlan) children[i]);
            String distribution = wanted[i].getClass().getSimpleName();
            if (!distribution.equals("UnspecifiedDistribution$")
                && !distribution.equals("BroadcastDistribution") && partitions(child) != 1) {
                if (!((Seq) orders[i]).isEmpty()) {
                    throw new Unfit("sorted rows of several partitions");
                }
                child = new CoalesceExec(1, child);
            }
            changed.add(child);
        }
        return children.length == 0 ? plan : (SparkPlan) plan.withNewChildren(seq(changed));
    }

    /** In how many partitions rows come: 1, or more. Spark does not know this of our leaves. */
    private static int partitions(SparkPlan plan) {
        String name = plan.getClass().getSimpleName();
        if (isTrain(plan) || name.equals("CoalesceExec") || name.equals("OneRowRelationExec")) {
            return 1;
        }
        if (name.equals("UnionExec") || name.equals("CartesianProductExec")
            || name.equals("LocalTableScanExec")) {
            return 2;
        }
        int most = 1;
        Object[] children = array(plan.children());
        for (int i = 0; i < children.length; i++) {
            SparkPlan child = (SparkPlan) children[i];
            if (!child.getClass().getSimpleName().equals("BroadcastExchangeExec")) {
                most = Math.max(most, partitions(child));
            }
        }
        return most;
    }

    /** Generated code is put in again, for the whole of the new plan. */
    private static SparkPlan withoutStages(SparkPlan plan) {
        Object[] children = array(plan.children());
        if (isStage(plan.getClass().getSimpleName())) {
            return withoutStages((SparkPlan) children[0]);
        }
        ArrayList changed = new ArrayList();
        for (int i = 0; i < children.length; i++) {
            changed.add(withoutStages((SparkPlan) children[i]));
        }
        return children.length == 0 ? plan : (SparkPlan) plan.withNewChildren(seq(changed));
    }

    private static boolean isStage(String name) {
        return name.equals("WholeStageCodegenExec") || name.equals("InputAdapter");
    }

    private static boolean isTrain(SparkPlan plan) {
        return plan instanceof RDDScanExec && ((RDDScanExec) plan).rdd() instanceof Train;
    }

    // Static tables

    private void requireStatic(SparkPlan plan, String what) throws Exception {
        Object[] subqueries = array(plan.subqueries());
        for (int i = 0; i < subqueries.length; i++) {
            requireStatic((SparkPlan) subqueries[i], what);
        }
        Object[] children = array(plan.children());
        for (int i = 0; i < children.length; i++) {
            requireStatic((SparkPlan) children[i], what);
        }
        if (isTrain(plan)) {
            throw new Unfit(what + " depends on a stream");
        }
        if (children.length == 0) {
            note(plan);
        }
    }

    /** What a static table is read from: a change of it has to be noticed. */
    private void note(SparkPlan leaf) throws Exception {
        String name = leaf.getClass().getSimpleName();
        if (name.equals("LocalTableScanExec") || name.equals("OneRowRelationExec")
            || name.equals("RangeExec")) {
            return;
        }
        if (leaf instanceof RDDScanExec && isInMemory(((RDDScanExec) leaf).rdd())) {
            return;
        }
        if (leaf instanceof InMemoryTableScanExec) {
            requireStatic(((InMemoryTableScanExec) leaf).relation().cachedPlan(), "a cached table");
            return;
        }
        if (leaf instanceof FileSourceScanExec) {
            Object location = ((FileSourceScanExec) leaf).relation().location();
            if (location instanceof PartitioningAwareFileIndex) {
                Object[] listed = array(((PartitioningAwareFileIndex) location).allFiles());
                for (int i = 0; i < listed.length; i++) {
                    files.add(((FileStatus) listed[i]).getPath());
                }
                return;
            }
        }
        throw new Unfit("a static table is read by " + name + ", and may change unnoticed");
    }

    /** Whether rows were given by the driver, and are not read from somewhere with every job. */
    private static boolean isInMemory(RDD rdd) {
        Object[] dependencies = array(rdd.dependencies());
        for (int i = 0; i < dependencies.length; i++) {
            if (!isInMemory(((Dependency) dependencies[i]).rdd())) {
                return false;
            }
        }
        return dependencies.length > 0
            || rdd.getClass().getSimpleName().equals("ParallelCollectionRDD");
    }

    /** The files of static tables as they are now, before they are read. */
    private FileStatus[] statuses() throws Exception {
        if (files.size() > MOST_FILES) {
            throw new Unfit("static tables have more than " + MOST_FILES + " files");
        }
        FileStatus[] found = new FileStatus[files.size()];
        for (int i = 0; i < found.length; i++) {
            Path path = (Path) files.get(i);
            found[i] = path.getFileSystem(hadoop).getFileStatus(path);
        }
        return found;
    }

    /** All settings: tasks read them from their own properties. */
    private Properties settings() {
        Properties found = new Properties();
        found.putAll(CollectionConverters.asJava(session.sessionState().conf().getAllConfs()));
        return found;
    }

    private static Object[] array(scala.collection.Seq items) {
        ArrayList found = new ArrayList();
        Iterator iterator = items.iterator();
        while (iterator.hasNext()) {
            found.add(iterator.next());
        }
        return found.toArray();
    }

    private static Seq seq(ArrayList items) {
        return CollectionConverters.asScala((java.util.List) items).toSeq();
    }

    /** To compare more files with what was read takes too long. */
    private static final int MOST_FILES = 64;
    /** Operators whose output over the rows of a task depends on these rows alone. */
    private static final HashSet OPERATORS = new HashSet(java.util.Arrays.asList(new Object[] {
        "ProjectExec", "FilterExec", "GenerateExec", "ExpandExec", "UnionExec", "CoalesceExec",
        "HashAggregateExec", "ObjectHashAggregateExec", "SortAggregateExec", "SortExec",
        "SortMergeJoinExec", "ShuffledHashJoinExec", "CartesianProductExec",
        "BroadcastHashJoinExec", "BroadcastNestedLoopJoinExec",
        "LocalTableScanExec", "OneRowRelationExec"
    }));
}

/** A plan that has to run as an ordinary job, and why. */
class Unfit extends RuntimeException {
    Unfit(String why) {
        super(why);
    }
}
