"""``daybreak link``: bandwidth scheduling in the simulator and on a real link."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import IO, Annotated, Any

import typer

from daybreak.cli.console import console, error_console, print_json, progress
from daybreak.links.counters import SenderCounters
from daybreak.links.link_files import load_scenario
from daybreak.links.link_simulator import ClassCounts, counts
from daybreak.links.needs import needs
from daybreak.links.playback import forecast, play
from daybreak.links.receiver import LinkReceiver, Received
from daybreak.links.registry import SCHEDULERS
from daybreak.links.scenario import LinkScenario, simulate
from daybreak.links.sender import LinkSender, parse_address
from daybreak.model.errors import ConfigError, suggestion
from daybreak.report.text import table

app = typer.Typer(
    help="Bandwidth for those who need it: classes, deadlines and minima on one link.",
    no_args_is_help=True,
)

ScenarioFile = Annotated[
    Path | None,
    typer.Argument(help="A TOML file with classes; default: the two classes of the text."),
]
Bandwidth = Annotated[float | None, typer.Option(help="Bytes per second.")]
Duration = Annotated[float | None, typer.Option("--seconds", help="How long to run.")]
Seed = Annotated[int, typer.Option(help="Seed of the traffic.", min=0)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("simulate")
def simulate_link(
    scenario: ScenarioFile = None,
    scheduler: Annotated[
        str | None, typer.Option(help="One scheduler, several as a,b,c, or all.")
    ] = None,
    bandwidth: Bandwidth = None,
    seconds: Duration = None,
    seed: Seed = 1,
    need: Annotated[
        bool, typer.Option("--need", help="Also search the bandwidth each class needs (24 seeds).")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Runs a link in virtual time and shows what became of every class.

    Example: daybreak link simulate --scheduler all --bandwidth 2500
    """
    base = _scenario(scenario, None, bandwidth, seconds)
    records = []
    names = _schedulers(scheduler or base.scheduler)
    with progress("simulating") as report:
        for done, name in enumerate(names):
            report(done, len(names))
            params = base.params if name == base.scheduler else {}
            chosen = replace(base, scheduler=name, params=params)
            found = counts(simulate(chosen, seed), chosen.classes)
            needed = _needs(chosen) if need else None
            records.append((name, found, needed))
    if as_json:
        print_json(_simulated_json(base, seed, records))
        return
    heads = ["scheduler", "class", "minimum", "arrived", "delivered", "expired", "evicted"]
    heads += ["queued", "share, %", "windows, %"]
    rows = [heads + (["needs, bytes/s"] if need else [])]
    for name, found, needed in records:
        for i, (cls, c) in enumerate(zip(base.classes, found, strict=True)):
            figures = [c.arrived, c.delivered, c.expired, c.evicted, c.queued]
            row = [name, cls.name, f"{cls.m}/{cls.n}", *map(str, figures)]
            row += [f"{100 * c.share:.1f}", f"{100 * c.window_share:.1f}"]
            rows.append(row + ([f"{needed[i]:.0f}"] if needed else []))
    title = f"{base.bandwidth_bytes_per_s:g} bytes/s, {base.duration_s:g} s, seed {seed}"
    _print(rows, title)


@app.command()
def serve(
    listen: Annotated[str, typer.Option(help="HOST:PORT; port 0 takes any free one.")] = (
        "127.0.0.1:7070"
    ),
    out: Annotated[
        Path | None, typer.Option(help="Append every tuple to this file, a JSON line each.")
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Exit when the first sender has finished.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Receives tuples from senders until interrupted, and counts what came in time.

    Example: daybreak link serve --listen 127.0.0.1:7070 --out received.jsonl
    """
    host, port = parse_address(listen, "--listen")
    stop = Event()
    _on_interrupt(stop)
    with _lines(out) as file:
        receiver = LinkReceiver(host, port, lambda item: _append(file, item))
        error_console().print(f"listening on {receiver.address[0]}:{receiver.address[1]}")
        with receiver:
            _watch(receiver, stop, once)
    found = receiver.counters()
    if as_json:
        print_json(
            {
                "classes": {name: c.as_json() for name, c in found.items()},
                "refused": receiver.refused,
            }
        )
    else:
        rows = [["class", "on time", "late", "duplicates", "bytes"]]
        for name, c in found.items():
            figures = (c.on_time, c.late, c.duplicates, c.bytes_received)
            rows.append([name, *map(str, figures)])
        _print(rows, f"{receiver.refused} connections refused")
    if out is not None:
        error_console().print(f"wrote {out}")


@app.command()
def send(
    scenario: ScenarioFile = None,
    to: Annotated[str, typer.Option(help="HOST:PORT of the receiver.")] = "127.0.0.1:7070",
    scheduler: Annotated[str | None, typer.Option(help="Which scheduler.")] = None,
    bandwidth: Bandwidth = None,
    seconds: Duration = None,
    seed: Seed = 1,
    faster: Annotated[
        float, typer.Option(help="Divides all times, multiplies rates and bandwidth.", min=0.001)
    ] = 1.0,
    lines: Annotated[
        bool,
        typer.Option("--lines", help="Send lines CLASS<tab>TEXT of standard input instead."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Sends tuples over TCP at a limited bandwidth, best ones first.

    Plays the scenario's random traffic and shows the simulator's forecast beside the result;
    with --lines it sends what standard input says.

    Example: daybreak link send --to 127.0.0.1:7070 --faster 10 --seconds 100
    """
    chosen = _scenario(scenario, scheduler, bandwidth, seconds).faster(faster)
    sender = LinkSender(
        parse_address(to, "--to"),
        chosen.classes,
        chosen.bandwidth_bytes_per_s,
        chosen.scheduler,
        params=chosen.params,
    )
    with sender:
        if lines:
            _send_lines(sender, sys.stdin)
        else:
            play(chosen, seed, sender, lambda elapsed_s: _live(sender, elapsed_s))
        sender.close(drain_s=max(c.deadline_s for c in chosen.classes) + 1)
    if not sender.connected:
        raise ConfigError(
            "--to", f"no receiver answered at {to}", "start daybreak link serve there"
        )
    expected = None if lines else forecast(chosen, seed)
    if as_json:
        print_json(_sent_json(sender, expected))
        return
    heads = ["class", "arrived", "delivered", "expired", "evicted", "left over"]
    rows = [[*heads, "share, %", "simulator, %"]]
    for i, (name, c) in enumerate(sender.counters().items()):
        figures = (c.arrived, c.delivered, c.expired, c.evicted, c.queued + c.in_flight)
        shares = [f"{100 * c.share:.1f}", f"{100 * expected[i].share:.1f}" if expected else ""]
        rows.append([name, *map(str, figures), *shares])
    _print(rows, f"{chosen.scheduler}, {chosen.bandwidth_bytes_per_s:g} bytes/s")


def _scenario(
    path: Path | None, scheduler: str | None, bandwidth: float | None, seconds: float | None
) -> LinkScenario:
    base = load_scenario(path) if path is not None else LinkScenario()
    if scheduler is not None:
        params = base.params if scheduler == base.scheduler else {}
        base = replace(base, scheduler=_schedulers(scheduler)[0], params=params)
    if bandwidth is not None:
        base = replace(base, bandwidth_bytes_per_s=bandwidth)
    if seconds is not None:
        base = replace(base, duration_s=seconds)
    return base


def _schedulers(text: str) -> list[str]:
    names = list(SCHEDULERS) if text == "all" else text.split(",")
    for name in names:
        if name not in SCHEDULERS:
            remedy = suggestion(name, SCHEDULERS)
            raise ConfigError("--scheduler", f"{name!r} is not known", remedy)
    return names


def _needs(scenario: LinkScenario) -> list[float]:
    """Searches from next to nothing up to twice what all tuples together would take."""
    most = 2 * sum(c.offered_bytes_per_s for c in scenario.classes)
    found = needs(scenario, range(1, 25), low_bytes_per_s=most / 50, high_bytes_per_s=most)
    return [need.bytes_per_s for need in found]


def _simulated_json(
    base: LinkScenario,
    seed: int,
    records: Sequence[tuple[str, list[ClassCounts], list[float] | None]],
) -> dict[str, Any]:
    return {
        "bandwidth_bytes_per_s": base.bandwidth_bytes_per_s,
        "duration_s": base.duration_s,
        "seed": seed,
        "schedulers": {
            name: {
                cls.name: {
                    **{key: getattr(c, key) for key in c.__slots__},
                    "share": c.share,
                    "window_share": c.window_share,
                    **({"need_bytes_per_s": needed[i]} if needed else {}),
                }
                for i, (cls, c) in enumerate(zip(base.classes, found, strict=True))
            }
            for name, found, needed in records
        },
    }


def _sent_json(sender: LinkSender, expected: list[ClassCounts] | None) -> dict[str, Any]:
    return {
        "reconnects": sender.reconnects,
        "classes": {
            name: {
                **c.as_json(),
                "share": c.share,
                **({"simulated_share": expected[i].share} if expected else {}),
            }
            for i, (name, c) in enumerate(sender.counters().items())
        },
    }


def _print(rows: list[list[str]], title: str) -> None:
    to = console()
    if not to.is_terminal:
        to.width = 120  # a file or a pipe has no columns that would have to be narrow
    to.print(table(rows, title))


def _live(sender: LinkSender, elapsed_s: float) -> None:
    def shown(name: str, c: SenderCounters) -> str:
        dropped = c.expired + c.evicted
        return f"{name}: {c.delivered} delivered, {dropped} dropped, {c.queued} waiting"

    line = "; ".join(shown(name, c) for name, c in sender.counters().items())
    error_console().print(f"{elapsed_s:5.0f} s  {line}", highlight=False)


def _send_lines(sender: LinkSender, source: IO[str]) -> None:
    for i, line in enumerate(source, 1):
        cls, tab, text = line.rstrip("\n").partition("\t")
        if not tab:
            raise ConfigError(f"line {i}", "has no tab", "write CLASS<tab>TEXT")
        sender.offer(cls, text.encode())


def _watch(receiver: LinkReceiver, stop: Event, once: bool) -> None:
    """Waits for the end, with a line a second as long as something comes in."""
    shown, began = "", time.monotonic()
    told = 0
    while not stop.is_set() and not (once and receiver.goodbyes):
        receiver.wait(lambda: bool(once and receiver.goodbyes), timeout_s=0.2)
        elapsed_s = time.monotonic() - began
        line = "; ".join(
            f"{name}: {c.on_time} on time, {c.late} late" for name, c in receiver.counters().items()
        )
        if int(elapsed_s) > told and line != shown:
            error_console().print(f"{elapsed_s:5.0f} s  {line}", highlight=False)
            shown, told = line, int(elapsed_s)


def _on_interrupt(stop: Event) -> None:
    """Ctrl-C and a polite kill end the receiver in order."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())


@contextmanager
def _lines(path: Path | None) -> Iterator[IO[str] | None]:
    if path is None:
        yield None
        return
    try:
        file = path.open("a", encoding="utf-8")
    except OSError as error:
        raise ConfigError("--out", f"cannot write {path} ({error})", "check the path") from error
    with file:
        yield file


def _append(file: IO[str] | None, item: Received) -> None:
    if file is None:
        return
    text = item.payload.decode("utf-8", "backslashreplace")
    line = {"class": item.cls, "latency_ms": item.latency_ms, "on_time": item.on_time, "text": text}
    file.write(json.dumps(line, ensure_ascii=False) + "\n")
    file.flush()
