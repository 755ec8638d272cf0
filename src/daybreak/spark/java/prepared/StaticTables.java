package daybreak.prepared;

import daybreak.tasks.Lists;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.RDDScanExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.columnar.InMemoryTableScanExec;
import org.apache.spark.sql.execution.datasources.PartitioningAwareFileIndex;

/** The static tables of a plan: what they are read from, since a change of it has to be noticed. */
class StaticTables {
    /** To compare more files with what was read takes too long. */
    private static final int MOST_FILES = 64;

    private final Configuration hadoop;
    private final List<Path> files = new ArrayList<>();

    StaticTables(Configuration hadoop) {
        this.hadoop = hadoop;
    }

    /** Notes what a part of a plan reads; raises {@code Unfit} if it depends on a stream. */
    void require(SparkPlan plan, String what) throws Exception {
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
            note(plan);
        }
    }

    private void note(SparkPlan leaf) throws Exception {
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
        if (leaf instanceof FileSourceScanExec) {
            Object location = ((FileSourceScanExec) leaf).relation().location();
            if (location instanceof PartitioningAwareFileIndex) {
                PartitioningAwareFileIndex index = (PartitioningAwareFileIndex) location;
                for (FileStatus file : Lists.list(index.allFiles())) {
                    files.add(file.getPath());
                }
                return;
            }
        }
        throw new Unfit("a static table is read by " + name + ", and may change unnoticed");
    }

    /** Their files as they are now, before they are read. */
    FileStatus[] statuses() throws Exception {
        if (files.size() > MOST_FILES) {
            throw new Unfit("static tables have more than " + MOST_FILES + " files");
        }
        List<FileStatus> found = new ArrayList<>();
        for (Path path : files) {
            found.add(path.getFileSystem(hadoop).getFileStatus(path));
        }
        return (FileStatus[]) found.toArray(new FileStatus[0]);
    }
}
