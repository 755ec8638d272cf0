"""Laws that every sink obeys, as checks against the real thing.

They run against our own sinks in our tests; an author of a ``Destination`` runs them too:

    from daybreak.spark.sinks.conformance import LAWS, DestinationUnderTest

    class Mine(DestinationUnderTest):
        def destination(self): ...   # on the same table each time
        def rows(self): ...          # the numbers in it, as a reader sees them

    for law in LAWS:
        law(Mine(), folder)

Each check uses a commit log in a folder of its own and raises AssertionError with the reason. No
Spark is needed.
"""

from __future__ import annotations

import shutil
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pyarrow as pa

from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.rows import CommittedFile
from daybreak.spark.sinks.calls import DestinationSink
from daybreak.spark.sinks.delivery import Recovery, bring, recover
from daybreak.spark.sinks.destination import Destination
from daybreak.spark.sinks.sink import Sink

QUERY = "conformance"
#: What the rows of every law look like; ``number`` identifies a row.
SCHEMA = pa.schema([("number", pa.int64()), ("text", pa.string())])
#: How long a call may take in the law about slow sinks.
LIMIT_S = 0.5
_PATIENCE_S = 30.0


def rows_of(*numbers: int) -> pa.Table:
    texts = [None if number % 3 == 0 else f'"{number}", é\n' for number in numbers]
    return pa.table({"number": list(numbers), "text": texts}, schema=SCHEMA)


class SinkUnderTest(ABC):
    """A place that sinks write to, and how a reader sees it."""

    @abstractmethod
    def sink(self, staging: Path, limit_s: float = 30.0) -> Sink:
        """A new sink of the query ``QUERY``, as a new process makes it, on the same place."""

    @abstractmethod
    def rows(self) -> list[int]:
        """The numbers of the rows that a reader finds now, each as often as it is there."""

    def refusing(self) -> AbstractContextManager[None] | None:
        """While it is open the place refuses rows. None: it never does."""
        return None

    def slow(self) -> AbstractContextManager[None] | None:
        """While it is open the place does not answer. None: it cannot be slow."""
        return None

    def renew(self) -> None:
        """Empties the place; called before every law."""


class DestinationUnderTest(SinkUnderTest):
    """The same for a ``Destination``."""

    @abstractmethod
    def destination(self, limit_s: float = 30.0) -> Destination:
        """A new one, for rows of ``SCHEMA``."""

    def sink(self, staging: Path, limit_s: float = 30.0) -> Sink:
        return DestinationSink(QUERY, staging, self.destination(limit_s), limit_s)


class Life:
    """One process with a sink; the next one begins after ``with`` as after a crash."""

    recovered: Recovery

    def __init__(self, place: SinkUnderTest, folder: Path, limit_s: float = 30.0) -> None:
        self.log = CommitLog(folder / "state.db")
        self.sink = place.sink(folder / "staging", limit_s)

    def recover(self) -> Recovery:
        return recover(self.log, {QUERY: self.sink})

    def committed(self, *numbers: int) -> list[CommittedFile]:
        """The files of a job."""
        return self.committed_table(rows_of(*numbers))

    def committed_table(self, table: pa.Table) -> list[CommittedFile]:
        """The files of a job with this result."""
        job = self.log.new_job()
        return self.log.commit(job, [], self.sink.stage(job, table))

    def delivered(self, files: Sequence[CommittedFile]) -> None:
        for file in files:
            bring(self.sink, file)
        self.sink.publish(now=True)
        assert all(map(self.sink.settled, files)), "published, and not settled"


@contextmanager
def _life(place: SinkUnderTest, folder: Path, limit_s: float = 30.0) -> Iterator[Life]:
    life = Life(place, folder, limit_s)
    try:
        life.recovered = life.recover()
        yield life
    finally:
        life.log.close()
        life.sink.close()


Law = Callable[[SinkUnderTest, Path], None]


def check_rows_arrive(place: SinkUnderTest, folder: Path) -> None:
    """Rows are visible once they are published, all of them, of every job."""
    with _life(place, folder) as life:
        assert not life.sink.stage(life.log.new_job(), rows_of()), "no rows, no file"
        for files in [life.committed(0, 1, 2), life.committed(3)]:
            life.delivered(files)
    _expect(place, [0, 1, 2, 3])


def check_rows_arrive_in_any_chunks(place: SinkUnderTest, folder: Path) -> None:
    """Rows arrive however the table that holds them is divided, also if its first chunk is empty.

    Results of windows and of executors are joined from many tables, some of them without a row.
    """
    divisions: Sequence[Sequence[Sequence[int]]] = (
        [[], [1, 2]],
        [[3], [], [4, 5], [6]],
        [[], [], [7], []],
    )
    with _life(place, folder) as life:
        for chunks in divisions:
            life.delivered(life.committed_table(_in_chunks(chunks)))
        # As executors' and windows' filters leave it: columns that are divided differently.
        uneven = _in_chunks([[], [8], [9]])
        texts = uneven.column("text").combine_chunks()
        life.delivered(life.committed_table(uneven.set_column(1, "text", texts)))
    _expect(place, list(range(1, 10)))


def _in_chunks(chunks: Sequence[Sequence[int]]) -> pa.Table:
    return pa.concat_tables([rows_of(*numbers) for numbers in chunks])


def check_nothing_is_visible_before_its_commit(place: SinkUnderTest, folder: Path) -> None:
    """Staged rows are out of sight, and removed if their job never commits."""
    with _life(place, folder) as life:
        assert life.sink.stage(life.log.new_job(), rows_of(1)), "rows were staged as nothing"
        life.sink.publish(now=True)
        _expect(place, [])
    with _life(place, folder) as life:
        assert not list(life.sink.staged()), "what no commit lists is deleted"
    _expect(place, [])


def check_small_results_need_no_file(place: SinkUnderTest, folder: Path) -> None:
    """The log alone has a small result until it is delivered: nothing waits for another file."""
    with _life(place, folder) as life:
        held = [file for file in life.committed(1, 2) if file.content is not None]
        staged = {path.name for path in life.sink.staged()}
        assert not staged & {file.path.name for file in held}, "a file was written before its time"
    if held:
        shutil.rmtree(folder / "staging", ignore_errors=True)
    with _life(place, folder) as life:
        assert not life.recovered.missing, "the log holds it"
        assert not life.log.undelivered()
    _expect(place, [1, 2])


def check_repeated_delivery(place: SinkUnderTest, folder: Path) -> None:
    """A delivery that is repeated is there once, or at least once where that is all it promises."""
    with _life(place, folder) as life:
        files, later = life.committed(1, 2), life.committed(3)
        for some in (files, later, files):
            life.delivered(some)
        assert not list(life.sink.staged())
        _expect(place, [1, 2, 3], exactly=life.sink.exactly_once)


def check_crash_between_commit_and_delivery(place: SinkUnderTest, folder: Path) -> None:
    """What a process has committed, the next one delivers."""
    with _life(place, folder) as life:
        life.committed(1)
        life.committed(2, 3)
    with _life(place, folder) as life:
        jobs = {file.job for file in life.recovered.delivered}
        assert len(jobs) == 2, life.recovered
        assert not life.log.undelivered()
        assert not list(life.sink.staged())
    _expect(place, [1, 2, 3])


def check_crash_between_delivery_and_its_note(place: SinkUnderTest, folder: Path) -> None:
    """Rows that are there are not written again, if the sink promises that."""
    with _life(place, folder) as life:
        exactly = life.sink.exactly_once
        life.delivered(life.committed(1, 2))
    with _life(place, folder) as life:
        assert not life.recovered.missing, "what was delivered is not lost"
        assert not life.log.undelivered()
        life.delivered(life.committed(3))
    _expect(place, [1, 2, 3], exactly=exactly)


def check_crash_before_publishing(place: SinkUnderTest, folder: Path) -> None:
    """Rows that a sink has taken and not yet made visible are not lost."""
    with _life(place, folder) as life:
        exactly = life.sink.exactly_once
        for file in life.committed(1, 2):
            bring(life.sink, file)
    with _life(place, folder) as life:
        assert not life.log.undelivered()
    _expect(place, [1, 2], exactly=exactly)


def check_refusal(place: SinkUnderTest, folder: Path) -> None:
    """A place that refuses rows gets them later, once; what comes after them waits."""
    refusing = place.refusing()
    if refusing is None:
        return
    with _life(place, folder) as life:
        exactly = life.sink.exactly_once
        life.delivered(life.committed(1))
        files = life.committed(2)
        with refusing:
            for _ in range(2):
                _expect_failure(lambda: life.delivered(files))
        life.delivered(files)
        life.delivered(life.committed(3))
    _expect(place, [1, 2, 3], exactly=exactly)


def check_refusal_at_the_start(place: SinkUnderTest, folder: Path) -> None:
    """A start survives a place that refuses rows, and keeps them for later."""
    refusing = place.refusing()
    if refusing is None:
        return
    with _life(place, folder) as life:
        exactly = life.sink.exactly_once
        life.committed(1)
        life.committed(2)
    life = Life(place, folder)  # a place that refuses from the beginning may refuse the start
    with refusing:
        assert QUERY in life.recover().refused, "a refusal was not noticed"
    assert len(life.log.undelivered()) == 2
    life.log.close()
    life.sink.close()
    with _life(place, folder) as life:
        assert not life.log.undelivered()
    _expect(place, [1, 2], exactly=exactly)


def check_slow(place: SinkUnderTest, folder: Path) -> None:
    """A place that does not answer holds nobody beyond the limit, and gets the rows later."""
    slow = place.slow()
    if slow is None:
        return
    with _life(place, folder, LIMIT_S) as life:
        exactly = life.sink.exactly_once
        files = life.committed(1)
        with slow:
            ended = threading.Event()

            def deliver() -> None:
                _expect_failure(lambda: life.delivered(files))
                ended.set()

            thread = threading.Thread(target=deliver, daemon=True)
            thread.start()
            assert ended.wait(_PATIENCE_S), f"it held its worker longer than {LIMIT_S} s"
    with _life(place, folder) as life:
        assert not life.log.undelivered()
    _expect(place, [1], exactly=exactly)


LAWS: Sequence[Law] = (
    check_rows_arrive,
    check_rows_arrive_in_any_chunks,
    check_nothing_is_visible_before_its_commit,
    check_small_results_need_no_file,
    check_repeated_delivery,
    check_crash_between_commit_and_delivery,
    check_crash_between_delivery_and_its_note,
    check_crash_before_publishing,
    check_refusal,
    check_refusal_at_the_start,
    check_slow,
)


def check_all(place: SinkUnderTest, folder: Path) -> None:
    """Every law, each on an empty place and with a log of its own."""
    for law in LAWS:
        check(law, place, folder)


def check(law: Law, place: SinkUnderTest, folder: Path) -> None:
    """One law on an empty place."""
    own = folder / law.__name__
    own.mkdir(parents=True)
    place.renew()
    law(place, own)


def _expect(place: SinkUnderTest, numbers: Sequence[int], *, exactly: bool = True) -> None:
    found, wanted = Counter(place.rows()), Counter(numbers)
    lost, more = wanted - found, found - wanted
    assert not lost, f"rows {sorted(lost)} are lost"
    unknown = [number for number in more if number not in wanted]
    assert not unknown, f"rows {unknown} should not be there"
    assert not (exactly and more), f"rows {sorted(more)} are there more than once"


def _expect_failure(call: Callable[[], None]) -> None:
    try:
        call()
    except AssertionError:
        raise
    except Exception:
        return
    raise AssertionError("a delivery that the place refused was taken for a success")
