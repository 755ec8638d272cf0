"""The Java that runs in Spark's driver, how it is compiled, and what of Spark's internals is used."""
