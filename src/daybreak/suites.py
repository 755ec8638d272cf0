"""Experiment suites, which installed packages offer by the entry point ``daybreak.experiments``.

Daybreak's own suite reproduces the source texts and is a distribution of its own
(``experiments/`` in the repository), which the core never imports.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from importlib.metadata import entry_points
from pathlib import Path
from typing import Literal, Protocol, TypedDict, cast

from daybreak.model.errors import ConfigError, suggestion

ENTRY_POINTS = "daybreak.experiments"
INSTALL = "pip install daybreak-experiments, or in a checkout pip install -e experiments"


class ClaimRecord(TypedDict):
    """One judged statement. ``holds`` and ``rule`` are None where nothing was judged."""

    claim: str
    kind: Literal["robust", "published", "note", "skipped"]
    #: What the text prints, and what we measured.
    paper: str
    ours: str
    rule: str | None
    holds: bool | None


class ExperimentRecord(TypedDict):
    """The result of one experiment, as it is printed and stored."""

    experiment: str
    title: str
    seeds: list[int]
    claims: list[ClaimRecord]
    #: The first row holds the headings.
    table: list[list[str]]
    notes: list[str]
    #: Path of the picture.
    figure: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """How to run an experiment, and where to put its record and picture."""

    #: None: as many as the experiment takes by default.
    seeds: Sequence[int] | None = None
    #: Recorded traces by name.
    traces: Mapping[str, Path] = field(default_factory=dict)
    #: Processes; 0: one per core.
    workers: int = 0
    out: Path = Path("reproduced")
    on_progress: Callable[[int, int], None] = lambda _done, _total: None


class Suite(Protocol):
    """What an entry point of the group refers to: an object or a module with these functions."""

    def titles(self) -> Mapping[str, str]:
        """Titles by name (``aurora/fig3.6``), in the order in which they are listed and run."""
        ...

    def run(self, name: str, request: Request) -> ExperimentRecord:
        """Runs one experiment; writes its record as JSON and its picture to ``request.out``."""
        ...

    def write_pages(self, records: Path, docs: Path) -> Sequence[Path]:
        """Writes results pages from all records in a folder; returns their paths."""
        ...


def all_experiments() -> dict[str, tuple[Suite, str]]:
    """Suite and title of every installed experiment by name; a name taken twice is an error."""
    found: dict[str, tuple[Suite, str]] = {}
    for entry in entry_points(group=ENTRY_POINTS):
        try:
            suite = cast(Suite, entry.load())
            titles = suite.titles()
        except Exception as error:
            raise ConfigError(
                f"experiments {entry.name!r}",
                f"the package cannot be loaded ({error})",
                f"repair or uninstall {entry.value}",
            ) from error
        for name, title in titles.items():
            if name in found:
                raise ConfigError(
                    f"experiment {name!r}", f"is defined again by {entry.value}", "rename it"
                )
            found[name] = (suite, title)
    if not found:
        raise ConfigError("reproduce", "no experiments are installed", INSTALL)
    return found


def find_experiments(patterns: Sequence[str]) -> dict[str, Suite]:
    """Suites of the experiments that match any of the names or patterns (``aurora/*``)."""
    everything = all_experiments()
    chosen: dict[str, Suite] = {}
    for pattern in patterns:
        matches = {n: suite for n, (suite, _) in everything.items() if fnmatchcase(n, pattern)}
        if not matches:
            raise ConfigError(
                "reproduce", f"no experiment matches {pattern!r}", suggestion(pattern, everything)
            )
        chosen.update(matches)
    return chosen
