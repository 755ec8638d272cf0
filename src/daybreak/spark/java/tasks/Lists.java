package daybreak.tasks;

import java.util.ArrayList;
import java.util.List;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** Makes Java's lists of Scala's, and the other way round. */
public class Lists {
    private Lists() {}

    public static <T> List<T> list(scala.collection.Seq<T> items) {
        return new ArrayList<>(CollectionConverters.asJava(items));
    }

    public static <T> Seq<T> seq(List<T> items) {
        return CollectionConverters.asScala(items).toSeq();
    }

    public static <T> Seq<T> none() {
        return seq(new ArrayList<T>());
    }
}
