"""Jobs: ranges of rows computed on Spark, committed and handed to the sinks."""
