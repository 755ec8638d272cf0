package daybreak.tasks;

import org.apache.spark.Partition;

/** The one partition of rows that are read on the caller's thread. */
public class Only implements Partition {
    private static final long serialVersionUID = 1L;

    public Only() {}

    @Override
    public int index() {
        return 0;
    }

    @Override
    public int hashCode() {
        return 0;
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Only;
    }

    // What Scala's compiler would add to a class that mixes in the trait.
    public boolean org$apache$spark$Partition$$super$equals(Object other) {
        return other instanceof Only;
    }
}
