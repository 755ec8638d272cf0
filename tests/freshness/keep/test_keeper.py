"""The keeper against a real HTTP server, a real PostgreSQL and files, in made-up time."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow.parquet as pa_parquet
import pytest
from tests.freshness.keep.servers import Pages, http_server, postgres

from daybreak.freshness.keep import MirrorKeeper, Store, make_sources, read_config
from daybreak.model import ConfigError
from daybreak.model.errors import NewerFormat

#: A period of 100 s in which 50 visits are allowed.
MIRROR = "[mirror]\nperiod_s = 100\nbandwidth = 50\nreplan_s = 50\nhost_gap_s = 0\n"


@pytest.fixture
def pages() -> Pages:
    return Pages()


@pytest.fixture
def site(pages: Pages) -> Iterator[str]:
    with http_server(pages) as url:
        yield url


def config_file(folder: Path, sources: str, mirror: str = MIRROR) -> Path:
    path = folder / "mirror.toml"
    path.write_text(mirror + sources)
    return path


def http_source(urls: list[str]) -> str:
    return f'[sources.web]\nkind = "http"\nurls = {json.dumps(urls)}\n'


class Run:
    """A keeper and its clock; time jumps to the next thing there is to do."""

    def __init__(self, path: Path, now_s: float = 1000.0) -> None:
        config = read_config(path)
        self.store = Store(config.path(config.mirror.store))
        self.keeper = MirrorKeeper(config, self.store, make_sources(config))
        self.now_s = now_s
        self.visits: list[tuple[float, str]] = []

    def until(self, end_s: float) -> None:
        while self.now_s < end_s:
            wake_s = self.keeper.step(self.now_s)
            if self.keeper.outcome:
                self.visits.append((self.now_s, self.keeper.outcome))
            # A visit takes a moment: time never stands still.
            self.now_s = max(wake_s, self.now_s + 1e-3)

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.keeper.close()


def test_copies_are_taken_and_refreshed_with_validators(
    tmp_path: Path, pages: Pages, site: str
) -> None:
    pages.content = {"/a": b"one", "/b": b"two"}
    with Run(config_file(tmp_path, http_source([f"{site}/a", f"{site}/b"]))) as run:
        run.until(1100)
        assert run.store.content("web", f"{site}/a") == b"one"
        pages.content["/a"] = b"one, changed"
        run.until(1200)
        assert run.store.content("web", f"{site}/a") == b"one, changed"
        # Unchanged visits cost an empty answer: each content was sent once.
        assert [s for p, s in pages.log if p == "/b"].count(200) == 1
        assert [s for p, s in pages.log if p == "/a"].count(200) == 2
        assert sum("a: changed" in said for _, said in run.visits) == 2


def test_without_validators_the_content_decides(tmp_path: Path, pages: Pages, site: str) -> None:
    pages.content, pages.validators = {"/a": b"same"}, False
    with Run(config_file(tmp_path, http_source([f"{site}/a"]))) as run:
        run.until(1100)
        said = [s for _, s in run.visits]
        assert "a: changed" in said[0]
        assert all("unchanged" in s for s in said[1:])


@pytest.mark.slow
def test_rates_are_learnt_and_the_plan_follows(tmp_path: Path, pages: Pages, site: str) -> None:
    """One page changes every 10 s, one never: the mirror finds out which."""
    pages.content = {"/fast": b"0", "/calm": b"0"}
    with Run(config_file(tmp_path, http_source([f"{site}/fast", f"{site}/calm"]))) as run:
        for k in range(1, 100):
            run.until(1000 + 10 * k)
            pages.content["/fast"] = str(k).encode()
        fast, calm = run.store.rows()
        assert fast.rate == pytest.approx(10, rel=0.35)
        assert calm.rate is not None
        assert calm.rate < 0.5
        assert fast.frequency is not None
        assert calm.frequency is not None
        assert fast.frequency > 3 * calm.frequency
        assert "changes about" in fast.why
        spent = len([t for t, _ in run.visits if t >= 1500]) / 5
        assert 40 < spent <= 51


def test_a_restart_continues_without_a_rush(tmp_path: Path, pages: Pages, site: str) -> None:
    urls = [f"{site}/{k}" for k in range(30)]
    pages.content = {f"/{k}": b"x" for k in range(30)}
    path = config_file(tmp_path, http_source(urls))
    with Run(path) as first:
        first.until(1200)
    before = len(pages.log)
    # Ten periods later everything is overdue. Visits still come two seconds apart.
    with Run(path, now_s=2200) as second:
        second.until(2300)
        times = [t for t, _ in second.visits]
        assert len(times) <= 51
        assert np.diff(times).min() > 1.9
        assert all(
            row.visited_s is not None and row.visited_s > 2200 for row in second.store.rows()
        )
    # Copies and visits survived: nothing was sent again.
    assert all(status == 304 for _, status in pages.log[before:])


def test_retry_after_is_heeded_for_the_whole_host(tmp_path: Path, pages: Pages, site: str) -> None:
    pages.content = {"/a": b"1", "/b": b"2"}
    path = config_file(tmp_path, http_source([f"{site}/a", f"{site}/b"]))
    with Run(path) as run:
        run.until(1020)
        pages.retry_after = "60"
        run.until(1040)
        asked = [t for t, said in run.visits if "status 503" in said]
        assert len(asked) == 1
        assert "retried in 60 s" in next(r.why for r in run.store.rows() if r.failures)
        pages.retry_after = None
    # Also across a restart.
    with Run(path, now_s=1041) as again:
        again.until(1150)
        assert again.visits[0][0] >= asked[0] + 60
        assert all(row.failures == 0 for row in again.store.rows())


def test_hosts_are_not_asked_too_often(tmp_path: Path, pages: Pages, site: str) -> None:
    pages.content = {f"/{k}": b"x" for k in range(10)}
    mirror = MIRROR.replace("host_gap_s = 0", "host_gap_s = 7")
    with Run(config_file(tmp_path, http_source([f"{site}/{k}" for k in range(10)]), mirror)) as run:
        run.until(1200)
        times = [t for t, _ in run.visits]
        assert np.diff(times).min() >= 7
        assert len(times) > 20


def test_a_missing_page_is_retried_ever_later(tmp_path: Path, pages: Pages, site: str) -> None:
    with Run(config_file(tmp_path, http_source([f"{site}/gone"]))) as run:
        run.until(1400)
        times = [t for t, said in run.visits if "status 404" in said]
        assert len(times) >= 4
        gaps = np.diff(times)
        assert (gaps[1:] >= gaps[:-1] - 2).all()
        assert run.store.rows()[0].failures == len(times)


def test_files_come_go_and_change(tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "a.txt").write_text("alpha")
    source = '[sources.docs]\nkind = "files"\npath = "docs"\npattern = "*.txt"\n'
    with Run(config_file(tmp_path, source)) as run:
        run.until(1060)
        (folder / "a.txt").write_text("alpha beta")
        (folder / "b.txt").write_text("new")
        run.until(1200)
        assert run.store.content("docs", "a.txt") == b"alpha beta"
        assert run.store.content("docs", "b.txt") == b"new"
        (folder / "a.txt").unlink()
        run.until(1300)
        assert [row.name for row in run.store.rows()] == ["b.txt"]
        # Its last copy is kept.
        assert run.store.content("docs", "a.txt") == b"alpha beta"


@pytest.mark.slow
def test_rows_of_a_real_postgresql(tmp_path: Path) -> None:
    import sqlalchemy as sa

    with postgres() as url:
        engine = sa.create_engine(url)
        with engine.begin() as db:
            db.execute(sa.text("CREATE TABLE price (stock text PRIMARY KEY, cents int)"))
            db.execute(sa.text("INSERT INTO price VALUES ('ENRON', 8000), ('ACME', 100)"))
        source = f'[sources.stocks]\nkind = "sql"\nurl = "{url}"\ntable = "price"\nkey = "stock"\n'
        path = config_file(tmp_path, source)
        with Run(path) as run:
            for k in range(1, 40):
                run.until(1000 + 10 * k)
                with engine.begin() as db:
                    db.execute(
                        sa.text("UPDATE price SET cents = :c WHERE stock = 'ENRON'"), {"c": k}
                    )
        with Run(path, now_s=1400) as again:  # restarted in the middle
            again.until(1500)
            rows = {row.name: row for row in again.store.rows()}
            enron, acme = rows["price/ENRON"], rows["price/ACME"]
            copy = json.loads(again.store.content("stocks", "price/ENRON") or b"")
            assert copy == {"cents": 39, "stock": "ENRON"}
            assert enron.rate is not None
            assert acme.rate is not None
            assert enron.rate > 10 * acme.rate
            with engine.begin() as db:
                db.execute(sa.text("INSERT INTO price VALUES ('NEW', 1)"))
            again.until(1600)
            assert again.store.content("stocks", "price/NEW") is not None
            assert again.store.export(tmp_path / "out.parquet") == 3
        assert pa_parquet.read_table(tmp_path / "out.parquet").num_rows == 3
        engine.dispose()


def test_access_weights_decide(tmp_path: Path, pages: Pages, site: str) -> None:
    pages.content = {"/hot": b"x", "/cold": b"x"}
    (tmp_path / "access.csv").write_text(f"id,access\n{site}/hot,100\n{site}/cold,1\n")
    mirror = MIRROR.replace("bandwidth = 50", 'bandwidth = 4\naccess = "access.csv"')
    with Run(config_file(tmp_path, http_source([f"{site}/cold", f"{site}/hot"]), mirror)) as run:
        run.until(3000)
        assert pages.requests("/hot") > pages.requests("/cold")
        assert "hot" in run.visits[0][1]


def test_a_mirror_of_a_later_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "mirror.db"
    Store(path).close()
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 99")
    for shared in (False, True):
        with pytest.raises(NewerFormat, match=r"mirror format 99 is newer.*name another file"):
            Store(path, shared=shared)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (99,)


def test_two_keepers_of_one_mirror_are_refused(tmp_path: Path) -> None:
    store = Store(tmp_path / "m.db")
    with pytest.raises(ConfigError, match="another process keeps"):
        Store(tmp_path / "m.db")
    Store(tmp_path / "m.db", shared=True).close()
    store.close()


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ('[sources.a]\nkind = "http"\nurls = ["http://x"]\n', "no bandwidth"),
        (MIRROR, "no source"),
        (MIRROR + '[sources.a]\nkind = "ftp"\n', "kind is 'ftp'"),
        (MIRROR + '[sources.a]\nkind = "http"\n', "no URLs"),
        (MIRROR + '[sources.a]\nkind = "sql"\nurl = "sqlite://"\ntable = "t"\n', "key is missing"),
        (MIRROR + '[sources.a]\nkind = "http"\nurls = ["ftp://x"]\n', "no http or https URL"),
        (MIRROR + '[sources.a]\nkind = "files"\npath = "none"\n', "is no folder"),
        (MIRROR + '[sources.a]\nkind = "sql"\nurl = "sqlite://"\ntable = "t"\nkey = "k"\n', "t: t"),
        (MIRROR.replace("50", "-1", 1) + '[sources.a]\nkind = "http"\nurls = ["http://x"]\n', "-1"),
        (MIRROR + 'retries = 3\n[sources.a]\nkind = "http"\nurls = ["http://x"]\n', "'retries'"),
    ],
)
def test_declarations_that_make_no_sense_are_refused(
    tmp_path: Path, text: str, finding: str
) -> None:
    path = tmp_path / "mirror.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=finding):
        make_sources(read_config(path))
