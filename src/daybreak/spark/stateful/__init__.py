"""Stateful queries: Spark's streaming queries over the segments of a run, one step per job."""
