"""Direct ingest: Spark's readers on the stream's own thread, and the log holds the position.

A stream that is read so has no StreamingQuery, no checkpoint and no Spark job. One transaction of
the commit log lists the rows of a batch and moves the position of its source past them.
"""
