package daybreak.prepared;

/** A plan that has to run as an ordinary job, and why. */
class Unfit extends RuntimeException {
    private static final long serialVersionUID = 1L;

    Unfit(String why) {
        super(why);
    }
}
