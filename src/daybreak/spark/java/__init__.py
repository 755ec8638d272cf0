"""Java that runs in Spark's driver, its compiler, and the internals of Spark that Daybreak uses."""
