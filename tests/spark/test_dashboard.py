"""The dashboard in a real browser, on a real run. One run and one browser for all tests here."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from benchmarks.chromium import chromium
from playwright.sync_api import Browser, Dialog, Page, expect
from tests.until import until

from daybreak.dashboard.server import Dashboard
from daybreak.dashboard.source import RunFolder
from daybreak.model.errors import ConfigError
from daybreak.model.limits import Limits
from daybreak.policies.registry import make_policy_with
from daybreak.runtime.snapshot import JobRow
from daybreak.simulation.recorded import RecordedRun
from daybreak.spark.app import App
from daybreak.spark.run import Run

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

#: A query's name and an error that would do harm if they ever became HTML.
NASTY = "<img src=x onerror=alert(1)>"
VIEWS = ("classes", "queries", "network", "schedule", "whatif", "changes")
#: Only a bound: Spark may take long to start a source on a busy machine.
WAIT_MS = 120_000
JOBS = re.compile(r"Schedule of the last 10 seconds: [1-9]\d* jobs on 1 lanes")


expect.set_options(timeout=WAIT_MS)


class Theatre:
    """A run, its page's server and a browser."""

    def __init__(self, run: Run, browser: Browser, source: Path, refuses: list[bool]) -> None:
        self.run = run
        self.browser = browser
        self.refuses = refuses
        self._source = source
        self._fed = 0
        self.served = self.serve(0)

    def serve(self, port: int) -> Dashboard:
        self.served = Dashboard(self.run.handle, port=port, every_s=0.2, folder=self.run.folder)
        return self.served

    def feed(self, rows: int) -> None:
        """Rows arrive, all at once."""
        lines = [json.dumps({"reading": self._fed + n}) for n in range(rows)]
        partial_file = self._source.parent / "partial"
        partial_file.write_text("\n".join(lines))
        partial_file.rename(self._source / f"{self._fed:08d}.json")
        self._fed += rows

    def open(self, view: str = "classes", width: int = 1280, height: int = 900) -> Page:
        page = self.browser.new_page(viewport={"width": width, "height": height})
        page.set_default_timeout(WAIT_MS)
        page.goto(f"{self.served.url}#{view}")
        expect(page.locator("#state")).to_have_text("running")
        return page


@pytest.fixture(scope="module")
def theatre(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Theatre]:
    folder = tmp_path_factory.mktemp("theatre")
    source = folder / "in"
    source.mkdir()
    refuses = [False]

    def keep(rows: pa.Table, _key: str) -> None:
        if refuses[0]:
            raise ValueError(f"no such value {NASTY}")

    app = App(spark, name="theatre")
    app.query_class("high", 600, qos=[[0, 1.0], [1.0, 1.0], [5.0, 0.0]])
    app.query_class("low", 10)
    app.stream("readings", format="json", schema="reading INT", path=str(source))
    app.view("even", sql="SELECT reading FROM readings WHERE reading % 2 = 0")
    app.query("alarm", sql="SELECT reading FROM readings WHERE reading > 5", cls="high")
    app.query("archive", sql="SELECT reading FROM readings", cls="low", sink=keep)
    app.query(NASTY, sql="SELECT reading FROM even WHERE reading > 9", cls="low")
    policy = make_policy_with("stride", train=50)
    limits = Limits(retries=1, retry_s=0.05)
    with (
        app.run(
            policy, run_dir=folder / "run", workers=1, limits=limits, on_failure="report"
        ) as run,
        chromium() as browser,
    ):
        found = Theatre(run, browser, source, refuses)
        yield found
        found.served.close()


def recorded_arrivals(run: Run) -> int:
    try:
        return len(RecordedRun.load(run.folder).at_ns)
    except ConfigError:
        return 0  # nothing is recorded yet


def listen_for_alerts(page: Page) -> list[str]:
    """What scripts in the page emit: there must be none but ours, and ours says nothing."""
    said: list[str] = []

    def heard(dialog: Dialog) -> None:
        said.append(dialog.message)
        dialog.dismiss()

    page.on("dialog", heard)
    return said


def row(query: str) -> str:
    return f'tr[data-query="{query}"]'


def test_a_burst_appears_and_a_click_changes_who_runs_next(theatre: Theatre) -> None:
    run, page = theatre.run, theatre.open()
    high, low = page.locator("[data-class=high]"), page.locator("[data-class=low]")
    expect(low.locator(".figures div:last-child dd")).to_have_text("0")
    before = (
        run.parts.keeping.figures.history.jobs[-1].seq
        if run.parts.keeping.figures.history.jobs
        else -1
    )
    theatre.feed(4000)
    expect(low.locator(".figures div:last-child dd")).not_to_have_text("0")
    expect(high.locator(".figures div:nth-child(2) dd")).to_contain_text("s")

    names = {q.name: q.number for q in run.snapshot().queries}

    def ran(cls: str, wanted: Callable[[JobRow], bool]) -> list[bool]:
        """Of the first twenty jobs that are wanted: which were of a class."""
        ours = {n for q, n in names.items() if (q == "alarm") == (cls == "high")}
        return [j.queries[0] in ours for j in run.parts.keeping.figures.history.jobs if wanted(j)][
            :20
        ]

    def fed(job: JobRow) -> bool:
        return job.seq > before

    until(lambda: len(ran("high", fed)) == 20)
    assert sum(ran("high", fed)) >= 15, "60 to 1 in favour of the high class"

    low.get_by_role("button", name="Change the priority of class low").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Now 10")
    dialog.get_by_label("New priority").fill("36000")
    theatre.feed(8000)  # so that both classes have work when the change comes
    dialog.get_by_role("button", name="Change priority").click()
    expect(dialog).to_be_hidden()
    expect(page.locator("#toasts")).to_contain_text("class low: priority 10 → 36000")
    expect(low.get_by_role("button", name="priority")).to_have_text("priority 36000")
    changed_s = float(str(run.changes[-1]["at_s"]))

    def later(job: JobRow) -> bool:
        return job.begin_s >= changed_s

    until(lambda: len(ran("low", later)) == 20)
    assert sum(ran("low", later)) >= 15, "60 to 1 the other way round, from the next schedule"

    page.get_by_role("link", name="Changes").click()
    line = page.locator("[data-view=changes] tbody tr").first
    expect(line).to_contain_text("dashboard 127.0.0.1")
    for said in ("class-priority", "low", "10", "36000"):
        expect(line).to_contain_text(said)
    page.close()


def test_the_policy_is_changed_from_the_page(theatre: Theatre) -> None:
    page = theatre.open()
    page.get_by_role("button", name="Change the policy, now stride").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Policy").select_option("round-robin")
    dialog.get_by_role("button", name="Change policy").click()
    expect(page.locator("#policy")).to_have_text("policy round-robin")
    assert theatre.run.policy.name == "round-robin"
    theatre.run.drain()
    page.close()


def test_a_failed_query_turns_red_and_is_resumed(theatre: Theatre) -> None:
    page = theatre.open("queries")
    alerts = listen_for_alerts(page)
    theatre.refuses[0] = True
    theatre.feed(10)
    line = page.locator(row("archive"))
    expect(line.locator(".state")).to_have_text("parked")
    expect(line).to_have_class("failed")
    expect(line.locator(".col-error")).to_contain_text(f"no such value {NASTY}")
    red = line.locator(".state").evaluate("n => getComputedStyle(n).color")
    assert red == "rgb(192, 39, 51)"
    expect(page.locator("#attention")).to_contain_text("archive is parked")
    expect(page.locator("#troubled")).to_have_text("1")

    theatre.refuses[0] = False
    line.get_by_role("button", name="Resume archive").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("no such value")
    dialog.get_by_role("button", name="Resume").click()
    expect(line.locator(".state")).to_have_text("running")
    expect(line).not_to_have_class("failed")
    expect(page.locator("#attention")).to_be_hidden()
    theatre.run.drain()
    assert theatre.run.snapshot().queries[1].error is None
    assert alerts == [], "nothing in a name or an error was run"
    page.close()


def test_names_and_errors_never_become_html(theatre: Theatre) -> None:
    page = theatre.open("queries")
    alerts = listen_for_alerts(page)
    expect(page.locator("tbody th", has_text=NASTY)).to_be_visible()
    for view in VIEWS:
        page.goto(f"{theatre.served.url}#{view}")
        expect(page.locator(f"[data-view={view}]")).to_be_visible()
    assert page.locator("img[src=x]").count() == 0
    assert alerts == []
    page.close()


def test_two_browsers_see_each_others_changes(theatre: Theatre) -> None:
    first, second = theatre.open("queries"), theatre.open("queries")
    line, same = first.locator(row("alarm")), second.locator(row("alarm"))
    line.get_by_role("button", name="Pause alarm").click()
    first.get_by_role("dialog").get_by_role("button", name="Pause").click()
    expect(same.locator(".state")).to_have_text("paused")
    same.get_by_role("button", name="Change alarm").click()
    dialog = second.get_by_role("dialog")
    dialog.get_by_label("Freshness weight").fill("0.5")
    dialog.get_by_label("Class").select_option("low")
    dialog.get_by_role("button", name="Change", exact=True).click()
    expect(line.locator(".col-weight")).to_have_text("0.5")
    expect(line.locator(".col-cls")).to_have_text("low")
    same.get_by_role("button", name="Resume alarm").click()
    second.get_by_role("dialog").get_by_role("button", name="Resume").click()
    expect(line.locator(".state")).to_have_text("running")
    second.locator(row("alarm")).get_by_role("button", name="Change alarm").click()
    dialog.get_by_label("Freshness weight").fill("2")
    assert second.locator("dialog input").evaluate("n => n.validity.rangeOverflow")
    first.close()
    second.close()


def test_a_page_finds_back_when_the_server_is_started_anew(theatre: Theatre) -> None:
    page = theatre.open("queries")
    port = theatre.served.port
    theatre.served.close()
    expect(page.locator("#state")).to_have_text("connection lost, trying again")
    expect(page.locator(row("alarm"))).to_be_visible()
    theatre.serve(port)
    expect(page.locator("#state")).to_have_text("running")
    # Also its right to change things is that of the new server.
    page.locator(row("alarm")).get_by_role("button", name="Pause alarm").click()
    page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    expect(page.locator(row("alarm")).locator(".state")).to_have_text("paused")
    theatre.run.resume("alarm")
    page.close()


def test_on_a_phone_nothing_scrolls_sideways(theatre: Theatre) -> None:
    page = theatre.open(width=360, height=740)
    for view in VIEWS:
        page.goto(f"{theatre.served.url}#{view}")
        expect(page.locator(f"[data-view={view}]")).to_be_visible()
        wide = page.evaluate(
            "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
        )
        assert wide[0] <= wide[1], f"{view} is {wide[0]} pixels wide"
    page.close()


def test_everything_is_within_reach_of_the_keyboard(theatre: Theatre) -> None:
    page = theatre.open()

    def focused() -> str:
        return str(page.evaluate("document.activeElement.textContent.trim()"))

    reached = []
    for _ in range(14):
        page.keyboard.press("Tab")
        reached.append(focused())
        outline = "getComputedStyle(document.activeElement).outlineStyle"
        assert page.evaluate(outline) == "solid", f"{reached[-1]} shows no focus"
        if reached[-1].startswith("priority"):
            break
    assert reached[0] == "Skip to content"
    assert {"Queries", "Network", "Schedule", "What if", "Changes"} <= set(reached)
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    assert page.evaluate("document.activeElement.type") == "number"
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    assert focused().startswith("priority"), "back where it was"
    page.goto(f"{theatre.served.url}#queries")
    page.get_by_role("button", name="Backlog").focus()
    page.keyboard.press("Enter")
    expect(page.locator("th[data-key=waiting]")).to_have_attribute("aria-sort", "ascending")
    page.get_by_label("Filter queries").fill("alarm")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.close()


def test_network_and_schedule_show_what_ran_together(theatre: Theatre) -> None:
    page = theatre.open("network")
    theatre.feed(40)
    expect(page.locator("svg .box.stream")).to_have_count(1)
    expect(page.locator("svg .box.view")).to_have_count(1)
    expect(page.locator("svg .edge")).to_have_count(3)
    line = page.locator(".job-line", has_text="tuples").first
    line.click()
    expect(page.locator("svg .picked")).not_to_have_count(0)
    page.goto(f"{theatre.served.url}#schedule")
    expect(page.locator("canvas.strip")).to_have_attribute("aria-label", JOBS)
    table = page.locator("[data-view=schedule] tbody tr")
    expect(table.filter(has_text=re.compile("(alarm|archive)"))).not_to_have_count(0)
    page.close()


def test_what_if_lays_curves_over_each_other(theatre: Theatre) -> None:
    page = theatre.open("whatif")
    page.get_by_label("Policies to replay under").select_option(["fcfs", "stride"])
    theatre.feed(100)
    # What a run does reaches its record after ten seconds.
    until(lambda: recorded_arrivals(theatre.run) > 0)
    page.get_by_role("button", name="Replay").click()
    expect(page.locator("[data-view=whatif] canvas.chart")).to_have_count(2)
    shown = page.locator("[data-view=whatif]")
    for said in ("How far to trust it", "recorded", "fcfs, replayed", "stride, replayed"):
        expect(shown).to_contain_text(said)
    page.close()


def test_a_finished_run_is_shown_and_cannot_be_changed(theatre: Theatre) -> None:
    theatre.run.stop()
    with Dashboard(RunFolder(theatre.run.folder), every_s=0.2) as served:
        page = theatre.browser.new_page()
        page.goto(f"{served.url}#queries")
        expect(page.locator("#state")).to_have_text("ended")
        expect(page.locator("tbody tr")).to_have_count(4)
        expect(page.get_by_role("button", name="Change alarm")).to_be_disabled()
        expect(page.locator("#policy")).to_be_disabled()
        page.goto(f"{served.url}#changes")
        expect(page.locator("[data-view=changes] tbody tr")).not_to_have_count(0)
        page.close()
