package daybreak.governed;

import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.sql.execution.streaming.*;
import org.apache.spark.sql.execution.streaming.runtime.*;

/**
 * Reaches what is private in Spark, or stands elsewhere in another version of it. Every name that
 * is reached here is listed in manifest.py.
 */
class Internals {
    private static final ConcurrentHashMap<String, Method> METHODS = new ConcurrentHashMap<>();

    private Internals() {}

    /** Raises what is missing of the internals that every gate needs. */
    static void check() throws Exception {
        StreamExecution.class.getDeclaredField("triggerClock").setAccessible(true);
        MicroBatchExecution.class.getDeclaredField("triggerExecutor").setAccessible(true);
        ProcessingTimeTrigger.class.getMethod("intervalMs", new Class<?>[0]);
    }

    /** Puts the clock of a query's trigger in the place of Spark's own. */
    static void setClock(StreamExecution x, Gate gate) throws Exception {
        Field clock = StreamExecution.class.getDeclaredField("triggerClock");
        clock.setAccessible(true);
        clock.set(x, gate);
        Field executor = MicroBatchExecution.class.getDeclaredField("triggerExecutor");
        executor.setAccessible(true);
        Object loop = executor.get(x);
        if (loop != null) {  // a Spark that makes it with the query; others make it after this
            Field own = loop.getClass().getDeclaredField("clock");
            own.setAccessible(true);
            own.set(loop, gate);
        }
    }

    /** Calls a method without arguments, whoever may. */
    static Object call(Object on, String method) throws Exception {
        String key = on.getClass().getName() + "." + method;
        Method known = (Method) METHODS.get(key);
        Class<?> type = on.getClass();
        for (; known == null && type != null; type = type.getSuperclass()) {
            for (Method found : type.getDeclaredMethods()) {
                if (known == null && found.getName().equals(method)
                    && found.getParameterCount() == 0) {
                    known = found;
                }
            }
        }
        if (known == null) {
            throw new NoSuchMethodException(key);
        }
        known.setAccessible(true);
        METHODS.put(key, known);
        return known.invoke(on, new Object[0]);
    }

    static Object field(Object of, String name) throws Exception {
        Field field = of.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field.get(of);
    }
}
