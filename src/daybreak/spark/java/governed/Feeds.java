package daybreak.governed;

import java.util.Collection;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;

/** The feeds of all sources, of which queries over the same files or topics share one. */
class Feeds {
    private final Map<String, Feed> feeds = new HashMap<>();

    /** The feed of a query's source; null of a source that none knows. */
    Feed of(Object source, String name) {
        String type = source.getClass().getSimpleName();
        try {
            String options = String.valueOf(Internals.field(source, "options"));
            if (type.equals("FileStreamSource")) {
                Internals.call(source, "seenFiles");
                FileFeed feed = (FileFeed) shared("files " + name + " " + options, true);
                feed.join();
                return feed;
            }
            if (type.equals("KafkaMicroBatchStream")) {
                return shared("kafka " + name + " " + options, false);
            }
            if (type.equals("RateStreamMicroBatchStream")) {
                // Its offsets count from the start of its own query.
                return shared("rate " + System.identityHashCode(source), false);
            }
            return null;
        } catch (Exception missing) {
            return null;
        }
    }

    private Feed shared(String key, boolean files) {
        synchronized (feeds) {
            Feed feed = (Feed) feeds.get(key);
            if (feed == null) {
                feed = files ? (Feed) new FileFeed() : (Feed) new OffsetFeed();
                feeds.put(key, feed);
            }
            return feed;
        }
    }

    void trim(Collection<Gate> gates) {
        synchronized (feeds) {
            Iterator<Feed> all = feeds.values().iterator();
            while (all.hasNext()) {
                if (!((Feed) all.next()).trim(gates)) {
                    all.remove();
                }
            }
        }
    }
}
