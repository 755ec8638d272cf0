package daybreak.stateful;

import org.apache.spark.sql.execution.streaming.Offset;

/** All steps up to this one. */
public class Step extends Offset {
    private final long number;

    Step(long number) {
        this.number = number;
    }

    @Override
    public String json() {
        return Long.toString(number);
    }
}
