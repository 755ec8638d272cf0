"""Folders: what is found, when, and what the kernel's news is worth."""

from __future__ import annotations

import os
import resource
import shutil
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tests.until import until

from daybreak.spark.ingest.direct.file_system import inotify_sees
from daybreak.spark.ingest.direct.inotify import Inotify, News
from daybreak.spark.ingest.direct.listing import FolderListing
from daybreak.spark.ingest.direct.listing_options import ListingOptions

#: Long before now: a file of this time is not being written to.
OLD_S = 1_700_000_000


@pytest.fixture
def inotify() -> Iterator[Inotify]:
    found = Inotify()
    yield found
    found.close()


class Log:
    """Which paths were read, and the events of a source."""

    def __init__(self) -> None:
        self.read: set[str] = set()
        self.asked = 0
        self.events: list[tuple[str, str]] = []

    def known(self, paths: Sequence[str]) -> Collection[str]:
        self.asked += len(paths)
        return self.read.intersection(paths)

    def emit(self, event: str, message: str, **fields: object) -> None:
        self.events.append((event, str(fields.get("file", ""))))


class Reader:
    """What reads a folder: each discovery at once, into the log."""

    def __init__(
        self,
        folder: Path,
        inotify: Inotify | None,
        options: ListingOptions | None = None,
        newest_ms: int = 0,
    ) -> None:
        self.log = Log()
        self.names: list[str] = []
        self.listing = FolderListing(
            str(folder), options or ListingOptions(), inotify, self.log.known,
            newest_ms=newest_ms, emit=self.log.emit, stream="s", poll_s=0.01,
        )  # fmt: skip

    def read(self) -> list[str]:
        """The names of one discovery."""
        found = self.listing.discover()
        assert bool(found.files) == bool(found.shown_at_ns)
        self.listing.taken(found.files)
        self.log.read |= {file.path for file in found.files}
        names = [Path(file.path).name for file in found.files]
        self.names += names
        return names

    def reads(self, *names: str) -> None:
        """Reads until it has read these, and exactly these, since the last time."""
        stopping = threading.Event()

        def came() -> bool:
            self.listing.wait(0.2, stopping)
            self.read()
            return set(self.names) >= set(names)

        until(came, f"{names}")
        assert sorted(self.names) == sorted(names)
        self.names.clear()


def put(folder: Path, name: str, text: str = "1\n", at_s: float = OLD_S) -> Path:
    """A complete file of a certain time, moved here as writers should."""
    made = folder.parent / f"{folder.name}-{name}"
    made.write_text(text)
    os.utime(made, (at_s, at_s))
    return made.rename(folder / name)


def _has_changed(reader: Reader, changes: int) -> bool:
    return reader.read() == [] and reader.listing.changed >= changes


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "in"
    made.mkdir()
    return made


@pytest.fixture
def in_memory() -> Iterator[Path]:
    """A folder in which many files are made quickly."""
    with TemporaryDirectory(dir="/dev/shm") as made:
        (Path(made) / "in").mkdir()
        yield Path(made) / "in"


def test_what_is_there_and_what_comes_is_read_once_in_order_of_time(
    folder: Path, inotify: Inotify
) -> None:
    put(folder, "b", at_s=OLD_S + 1)
    put(folder, "c", at_s=OLD_S)
    put(folder, "a", at_s=OLD_S + 1)
    reader = Reader(folder, inotify)
    assert reader.read() == ["c", "a", "b"]
    assert reader.read() == []
    put(folder, "d", at_s=OLD_S - 5)
    reader.names.clear()
    reader.reads("d")
    assert reader.listing.is_settled


def test_news_come_without_a_listing(folder: Path, inotify: Inotify) -> None:
    reader = Reader(folder, inotify)
    assert reader.read() == []
    asked = reader.log.asked
    for at in range(20):
        put(folder, f"{at}")
    reader.reads(*(f"{at}" for at in range(20)))
    assert reader.log.asked - asked == 20, "the log is asked about new names only"


def test_a_file_that_is_written_slowly_is_read_when_it_is_closed(
    folder: Path, inotify: Inotify
) -> None:
    reader = Reader(folder, inotify)
    reader.read()
    with (folder / "slow").open("w") as out:
        for _ in range(3):
            out.write("1\n")
            out.flush()
            reader.listing.list_again()
            assert reader.read() == []
            assert not reader.listing.is_settled
    reader.reads("slow")


def test_a_file_that_is_never_closed_is_read_when_it_has_settled(
    folder: Path, inotify: Inotify
) -> None:
    reader = Reader(folder, inotify)
    reader.read()
    with (folder / "open").open("w") as out:
        out.write("1\n")
        out.flush()
        assert reader.read() == []
        os.utime(folder / "open", (OLD_S, OLD_S))
        reader.reads("open")
        out.write("2\n")
    until(lambda: reader.read() == [] and reader.listing.changed)
    assert reader.log.events == [("file-changed", str(folder / "open"))]


def test_a_write_after_the_read_is_reported_and_not_read(folder: Path, inotify: Inotify) -> None:
    put(folder, "a")
    reader = Reader(folder, inotify)
    assert reader.read() == ["a"]
    for changes, text in enumerate(("2\n", "2\n3\n"), 1):
        (folder / "a").write_text("1\n" + text)
        until(partial(_has_changed, reader, changes))
    assert reader.log.events == [("file-changed", str(folder / "a"))], "one event, two changes"


def test_links_are_read_at_once(folder: Path, inotify: Inotify) -> None:
    reader = Reader(folder, inotify)
    reader.read()
    made = folder.parent / "made"
    made.write_text("1\n")  # changed just now, so only that it is a link tells it is complete
    (folder / "hard").hardlink_to(made)
    reader.reads("hard")
    before_s = time.time() - 100
    os.utime(made, (before_s, before_s))
    (folder / "soft").symlink_to(made)
    (folder / "nowhere").symlink_to(folder / "missing")
    reader.reads("soft")


def test_hidden_names_and_folders_are_passed_over(folder: Path, inotify: Inotify) -> None:
    hidden = (".a", "_a", "_metadata", "a._COPYING_", ".a.crc", "_SUCCESS")
    for name in (*hidden, "_k=v", "a.b", "a_b"):
        put(folder, name)
    (folder / "sub").mkdir()
    (folder / "day=1").mkdir()
    reader = Reader(folder, inotify)
    assert sorted(reader.read()) == ["_k=v", "a.b", "a_b"]
    for name in hidden:
        put(folder, f"{name[:1]}x{name[1:]}" if name[0] != "a" else f"x{name}")
    put(folder, "last")
    reader.names.clear()
    reader.reads("last")
    assert reader.log.events == [("file-skipped", str(folder / "day=1"))]


def test_a_name_that_is_not_utf_8_is_reported_once(folder: Path, inotify: Inotify) -> None:
    reader = Reader(folder, inotify)
    reader.read()
    odd = os.fsencode(folder) + b"/\xff"
    with open(odd, "wb"):  # noqa: PTH123
        pass
    put(folder, "a")
    reader.reads("a")
    reader.listing.list_again()
    assert reader.read() == []
    assert reader.log.events == [("file-skipped", repr(odd))]


@pytest.mark.slow
def test_an_overflow_leads_to_a_listing(folder: Path, inotify: Inotify) -> None:
    """More names at once than the kernel keeps; the reader's thread stands still meanwhile."""
    most = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    reader = Reader(folder, inotify)
    reader.read()
    holding, waits = threading.Event(), threading.Event()

    def hold(_news: News) -> None:
        waits.set()
        holding.wait()

    put(folder, "first")
    other = folder.parent / "other"
    other.mkdir()
    inotify.watch(str(other), hold)
    put(other, "a")
    until(waits.is_set)
    for at in range(most + 10):
        os.link(folder / "first", folder / f"{at}")
    holding.set()
    stopping = threading.Event()

    def came() -> bool:
        reader.listing.wait(0.2, stopping)
        reader.read()
        return len(reader.names) >= most + 11

    until(came)
    assert len(set(reader.names)) == len(reader.names) == most + 11


def test_a_folder_that_is_removed_and_made_again_is_watched_again(
    folder: Path, inotify: Inotify
) -> None:
    put(folder, "a")
    reader = Reader(folder, inotify)
    reader.reads("a")
    shutil.rmtree(folder)
    until(lambda: reader.read() == [] and reader.listing._watch is None)
    folder.mkdir()
    put(folder, "a")
    put(folder, "b")
    reader.reads("b")  # "a" was read, whatever has become of it
    until(lambda: reader.read() == [] and reader.listing._watch is not None)
    put(folder, "c")
    reader.reads("c")


def test_a_folder_in_the_place_of_another_is_watched(folder: Path, inotify: Inotify) -> None:
    reader = Reader(folder, inotify)
    reader.read()
    folder.rename(folder.parent / "before")
    folder.mkdir()
    put(folder, "a")
    reader.reads("a")
    until(lambda: reader.read() == [] and reader.listing._watch is not None)
    put(folder.parent / "before", "lost")
    put(folder, "b")
    reader.reads("b")


def test_two_streams_may_read_one_folder(folder: Path, inotify: Inotify) -> None:
    one, two = Reader(folder, inotify), Reader(folder, inotify)
    one.read(), two.read()
    put(folder, "a")
    one.reads("a")
    two.reads("a")
    one.listing.close()
    put(folder, "b")
    two.reads("b")


def test_without_inotify_the_folder_is_listed(folder: Path) -> None:
    reader = Reader(folder, None)
    put(folder, "a")
    reader.reads("a")
    put(folder, "b")
    reader.reads("b")


def test_where_the_kernel_watches_no_more_folders_one_event_says_so(
    folder: Path, inotify: Inotify, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(inotify, "watch", refused)
    reader = Reader(folder, inotify)
    for name in ("a", "b"):
        put(folder, name)
        reader.reads(name)
    assert reader.log.events == [("folder-polled", str(folder))]


def test_where_there_is_no_instance_one_event_says_so() -> None:
    log = Log()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        assert Inotify.opened(log.emit) is None
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert [event for event, _ in log.events] == ["folder-polled"]


def test_what_the_kernel_sees(tmp_path: Path) -> None:
    assert inotify_sees(str(tmp_path))
    assert inotify_sees("/dev/shm")
    assert not inotify_sees("/proc"), "no file system of files"
    assert not inotify_sees(str(tmp_path / "missing"))


def test_a_file_of_the_future_does_not_wait_for_it(folder: Path) -> None:
    put(folder, "a", at_s=time.time() + 3600)
    assert Reader(folder, None).read() == ["a"]


def test_files_that_the_log_has_are_not_read_after_a_start(folder: Path, inotify: Inotify) -> None:
    for name in ("a", "b", "c"):
        put(folder, name)
    reader = Reader(folder, inotify)
    reader.log.read = {str(folder / "a"), str(folder / "c")}
    assert reader.read() == ["b"]
    (folder / "a").unlink()
    reader.listing.list_again()
    reader.read()
    put(folder, "a")  # memory has forgotten it, the log has not
    put(folder, "d")
    reader.names.clear()
    reader.reads("d")


def test_files_older_than_the_newest_by_more_than_the_greatest_age_are_not_read(
    folder: Path, inotify: Inotify
) -> None:
    options = ListingOptions(max_age_ms=10_000)
    put(folder, "a", at_s=OLD_S)
    put(folder, "b", at_s=OLD_S + 100)
    reader = Reader(folder, inotify, options)
    assert reader.read() == ["a", "b"], "nothing was read before: none is too old"
    assert reader.listing.too_old_ms == (OLD_S + 90) * 1000
    put(folder, "c", at_s=OLD_S + 89)
    put(folder, "d", at_s=OLD_S + 90)
    reader.names.clear()
    reader.reads("d")
    again = Reader(folder, inotify, options, newest_ms=(OLD_S + 100) * 1000)
    again.log.read = {str(folder / name) for name in "bd"}
    assert again.read() == [], "a start knows the newest time from the log"


def test_a_name_that_was_forgotten_counts_as_another_file(folder: Path, inotify: Inotify) -> None:
    put(folder, "a", at_s=OLD_S)
    reader = Reader(folder, inotify, ListingOptions(max_age_ms=10_000))
    reader.reads("a")
    put(folder, "b", at_s=OLD_S + 100)
    reader.reads("b")
    reader.log.read.remove(str(folder / "a"))  # the log forgets what is older than ``too_old_ms``
    put(folder, "a", "2\n3\n", at_s=OLD_S + 101)
    reader.reads("a")
    assert reader.listing.changed == 0


@pytest.mark.slow
def test_a_hundred_thousand_files_cost_a_batch_no_more_than_a_hundred(
    in_memory: Path, inotify: Inotify
) -> None:
    """Counted, not timed: what is there, read or not, is not looked at again by a batch."""
    folder = in_memory
    put(folder, "0")
    for at in range(1, 100_000):
        if at % 50_000 == 0:
            put(folder, f"{at}")
        else:  # a file has fewer than 65 000 links
            os.link(folder / str(at // 50_000 * 50_000), folder / str(at))
    reader = Reader(folder, inotify, ListingOptions(most_files=3))
    assert len(reader.listing.discover().files) == 3
    asked = reader.log.asked
    for _ in range(100):
        assert len(reader.read()) == 3
    put(folder, "new", at_s=OLD_S - 1)
    until(lambda: "new" in reader.read())
    assert reader.log.asked == asked + 1
