package daybreak.ingest;

/** A source that only a StreamingQuery can read, and why. */
class Unread extends RuntimeException {
    private static final long serialVersionUID = 1L;

    Unread(String why) {
        super(why);
    }
}
