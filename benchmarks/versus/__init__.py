"""Daybreak beside what one would write with Structured Streaming alone; see versus_spark.py."""
