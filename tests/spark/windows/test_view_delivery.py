"""Results of a view reach its stream once, also where a power cut brings staged files back."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from daybreak.engine.inbox import Waiting
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.rows import CommittedFile, Cursor
from daybreak.spark.log.rundir import RunDirectory
from daybreak.spark.log.segments import SegmentStore
from daybreak.spark.sinks.delivery import recover
from daybreak.spark.sinks.views import ViewSink, stamped


class Query:
    def __init__(self, sink: object) -> None:
        self.sink = sink


def test_a_staged_file_that_a_power_cut_brought_back_is_not_delivered_again(
    tmp_path: Path,
) -> None:
    """Its segment was read by all and removed before the delivery was noted in the log."""
    with RunDirectory.open(tmp_path / "run", "views") as rundir:
        log = CommitLog(rundir.state_db)
        store = SegmentStore(rundir, log)
        sink = ViewSink("v", rundir.staging, None, None)
        sink.bind(store, lambda _segment: None, lambda _tick: None)
        files: list[CommittedFile] = []
        for n in range(3):
            (table,) = stamped([Query(sink)], [pa.table({"n": [n]})], [Waiting(1, "s", 1, 0)])
            job = log.new_job()
            files += log.commit(job, [], sink.stage(job, table))
        contents = [file.path.read_bytes() for file in files]
        for file in files:
            assert sink.deliver(file)
        store.remove_below("v", Cursor(2, 0))
        for file, content in zip(files, contents, strict=True):
            file.path.write_bytes(content)
        log.close()
        log = CommitLog(rundir.state_db)
        store = SegmentStore(rundir, log)
        sink.bind(store, lambda _segment: None, lambda _tick: None)
        outcome = recover(log, {sink.query: sink})
        assert not outcome.refused
        assert [segment.batch_id for segment in store.segments("v")] == [files[2].id]
        assert store.segments("v")[0].seq == 2
        assert not list(sink.staged())
        assert log.undelivered() == []
        log.close()
