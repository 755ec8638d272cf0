"""Decisions without threads, clocks or I/O: the machine that Spark and replays drive."""
