package daybreak.tasks;

import org.apache.spark.TaskContext;

/** Something to be done in a task. */
public interface Work {
    /** Returns a number for the caller of {@code LocalTasks.run}. */
    long run(TaskContext task) throws Exception;
}
