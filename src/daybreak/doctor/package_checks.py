"""Installed packages against what Daybreak requires, for the core and for each extra."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version

from daybreak.doctor.check_result import CheckResult, failure, optional, passed
from daybreak.version import __version__

#: What each extra is for. ``all`` is the sum of the others.
PURPOSES = {
    "spark": "runs on Spark",
    "delta": "Delta Lake sinks",
    "postgres": "PostgreSQL as sink or commit log",
    "filters": "filters that call HTTP, Redis or PostgreSQL",
    "mirror": "mirrors of SQL databases",
    "plot": "pictures in reports",
    "web": "the dashboard",
}
_REQUIREMENT = re.compile(r"([\w.-]+)\s*(?:\[[^]]*\])?\s*\(?([^;)]*)\)?\s*(?:;(.*))?")
_EXTRA = re.compile(r"extra\s*==\s*['\"]([\w-]+)['\"]")
_BOUND = re.compile(r"(>=|<=|==|<|>)\s*([\d.]+)")


@dataclass(frozen=True, slots=True)
class Requirement:
    """One line of the distribution's requirements, such as ``pandas<3,>=2.2; extra == "x"``."""

    package: str
    bounds: str
    extra: str | None

    def installed(self) -> str | None:
        """The version; None if it is not installed."""
        try:
            return version(self.package)
        except PackageNotFoundError:
            return None

    def admits(self, found: str) -> bool:
        return all(
            _holds(mark, _numbers(found), _numbers(bound))
            for mark, bound in _BOUND.findall(self.bounds)
        )


def parse_requirement(line: str) -> Requirement | None:
    """None for a line that names Daybreak itself, as the extra ``all`` does."""
    match = _REQUIREMENT.match(line)
    if match is None or match[1] == "daybreak":
        return None
    extra = _EXTRA.search(match[3] or "")
    return Requirement(match[1], match[2].strip(), extra[1] if extra else None)


def check_packages(needed: frozenset[str] = frozenset()) -> Iterator[CheckResult]:
    """The core, then every extra; ``needed``: extras whose absence is a failure."""
    try:
        lines = requires("daybreak") or []
    except PackageNotFoundError:
        yield failure("daybreak", "is not installed as a package", "pip install daybreak")
        return
    by_extra: dict[str | None, list[Requirement]] = {}
    for line in lines:
        if (parsed := parse_requirement(line)) is not None:
            by_extra.setdefault(parsed.extra, []).append(parsed)
    yield _core(by_extra.pop(None, []))
    for extra, purpose in PURPOSES.items():
        yield _extra(extra, purpose, by_extra.get(extra, []), extra in needed)


def _core(required: list[Requirement]) -> CheckResult:
    wrong = [text for r in required if (text := _unfit(r)) or (text := _absent(r))]
    if wrong:
        return failure("packages", "; ".join(wrong), "pip install --upgrade daybreak")
    return passed("packages", f"daybreak {__version__}, {_versions(required)}")


def _extra(extra: str, purpose: str, required: list[Requirement], needed: bool) -> CheckResult:
    check, install = f"extra {extra}", f"pip install --upgrade 'daybreak[{extra}]'"
    if unfit := [text for r in required if (text := _unfit(r))]:
        return failure(check, f"{'; '.join(unfit)} ({purpose})", install)
    if absent := [text for r in required if (text := _absent(r))]:
        report = failure if needed else optional
        return report(check, f"{'; '.join(absent)} ({purpose})", install.replace(" --upgrade", ""))
    return passed(check, _versions(required))


def _unfit(required: Requirement) -> str:
    found = required.installed()
    if found is None or required.admits(found):
        return ""
    return f"{required.package} {found} is installed, but {required.bounds} is required"


def _absent(required: Requirement) -> str:
    return "" if required.installed() else f"{required.package} is not installed"


def _versions(required: list[Requirement]) -> str:
    return ", ".join(f"{r.package} {r.installed()}" for r in required)


def _numbers(text: str) -> tuple[int, ...]:
    """``4.3.0rc1`` is (4, 3, 0): a pre-release counts as its release."""
    return tuple(int(part) for part in re.findall(r"\d+", re.split(r"[^\d.]", text)[0]))


def _holds(mark: str, found: tuple[int, ...], bound: tuple[int, ...]) -> bool:
    width = max(len(found), len(bound))
    left, right = (numbers + (0,) * (width - len(numbers)) for numbers in (found, bound))
    match mark:
        case ">=":
            return left >= right
        case "<=":
            return left <= right
        case "<":
            return left < right
        case ">":
            return left > right
        case _:
            return left == right
