"""Pictures of the dashboard for the docs, of a real run of the wildfire example.

    python benchmarks/screenshots.py [--out docs/img] [--seconds 40]

A burst comes, one sink fails, and an operator changes a priority: all as it happens.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
from playwright.sync_api import Browser

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.chromium import chromium
from examples.wildfire import application

from daybreak.dashboard.server import Dashboard
from daybreak.model import Arrivals, Phase
from daybreak.spark.app import App
from daybreak.spark.session import local_session

VIEWS = ("classes", "queries", "network", "schedule", "whatif")
DESKTOP, PHONE = (1440, 900), (390, 844)


def full_disk(_rows: pa.Table, _key: str) -> None:
    raise OSError(28, "No space left on device")


def declare(rate_per_s: float, seconds: float) -> App:
    phases = (Phase(1, duration_s=seconds * 0.4), Phase(4, duration_s=seconds * 0.2),
              Phase(1, duration_s=seconds * 9))  # fmt: skip
    spark = local_session("wildfire", cores=2)
    app = application(spark, Arrivals(rate_per_s=rate_per_s, phases=phases))
    app.query(
        "archive-gales", sql="SELECT station, wind FROM readings WHERE wind > 80",
        cls="archive", sink=full_disk,
    )  # fmt: skip
    return app


def picture(
    browser: Browser, url: str, view: str, file: Path, scheme: str, size: tuple[int, int]
) -> None:
    page = browser.new_page(
        viewport={"width": size[0], "height": size[1]},
        color_scheme="dark" if scheme == "dark" else "light",
        device_scale_factor=1,
    )
    page.goto(f"{url}#{view}")
    page.wait_for_selector("#state[data-state=running]")
    if view == "whatif":
        page.get_by_label("Policies to replay under").select_option(["fcfs", "round-robin"])
        page.get_by_role("button", name="Replay").click()
    page.wait_for_selector(f'[data-view="{view}"] :is(canvas, table, svg)', timeout=180_000)
    page.wait_for_timeout(1600)  # a message more, so that what is new is lit
    page.screenshot(path=file)
    page.close()
    print(f"{file} {file.stat().st_size / 1000:.0f} kB")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("docs/img"))
    parser.add_argument("--seconds", type=float, default=40.0, help="of the run before pictures")
    parser.add_argument("--rate", type=float, default=30.0, help="readings per second")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    app = declare(args.rate, args.seconds)
    with (
        tempfile.TemporaryDirectory() as folder,
        app.run("stride", run_dir=Path(folder) / "run") as run,
        Dashboard(run.handle, folder=Path(folder) / "run") as served,
    ):
        until = time.monotonic() + args.seconds
        run.wait(args.seconds * 0.7)
        run.change_class_priority("watch", 50)
        run.wait(max(0.0, until - time.monotonic()))
        with chromium() as browser:
            for view in VIEWS:
                file = args.out / f"dashboard-{view}.png"
                picture(browser, served.url, view, file, "light", DESKTOP)
            for view in ("classes", "queries"):
                file = args.out / f"dashboard-{view}-dark.png"
                picture(browser, served.url, view, file, "dark", DESKTOP)
                file = args.out / f"dashboard-{view}-phone.png"
                picture(browser, served.url, view, file, "light", PHONE)


if __name__ == "__main__":
    main()
