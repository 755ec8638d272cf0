package daybreak.governed;

/** One source of one query: what it has read, and the feed that knows what there is. */
class Input {
    final Object source;
    final String name;
    /** Null: nobody knows what waits. */
    final Feed feed;
    long position = 0L;
    /** Groups of the feed before this one hold nothing new. */
    int first = 0;

    Input(Feeds feeds, Object source) {
        this.source = source;
        this.name = String.valueOf(source);
        this.feed = feeds.of(source, name);
    }
}
