"""What a check of ``daybreak doctor`` found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum

from daybreak.model.errors import ConfigError, ConfigErrors
from daybreak.model.secrets import without_secrets


class CheckStatus(StrEnum):
    """How serious a finding is; only a failure makes the command exit with 1."""

    OK = "ok"
    #: An optional part is not installed, and nothing that was examined needs it.
    OPTIONAL = "optional"
    #: It works now and may fail later.
    WARNING = "warning"
    #: A run would fail.
    FAILURE = "failure"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One finding. ``remedy`` is empty where the status is ``OK``."""

    check: str
    status: CheckStatus
    finding: str
    remedy: str = ""

    def as_json(self) -> dict[str, str]:
        return {key: without_secrets(str(value)) for key, value in asdict(self).items()}


def passed(check: str, finding: str) -> CheckResult:
    return CheckResult(check, CheckStatus.OK, finding)


def optional(check: str, finding: str, remedy: str) -> CheckResult:
    return CheckResult(check, CheckStatus.OPTIONAL, finding, remedy)


def warning(check: str, finding: str, remedy: str) -> CheckResult:
    return CheckResult(check, CheckStatus.WARNING, finding, remedy)


def failure(check: str, finding: str, remedy: str) -> CheckResult:
    return CheckResult(check, CheckStatus.FAILURE, finding, remedy)


def failures(check: str, error: ConfigError) -> Iterator[CheckResult]:
    """One result for each error; the place is part of the finding unless it is the check."""
    for found in error.errors if isinstance(error, ConfigErrors) else (error,):
        finding = found.finding if found.place == check else f"{found.place}: {found.finding}"
        yield failure(check, finding, found.remedy)


def refused(check: str, attempt: Callable[[], object]) -> Iterator[CheckResult]:
    """Failures, if the attempt raises a ``ConfigError``; nothing if it succeeds."""
    try:
        attempt()
    except ConfigError as error:
        yield from failures(check, error)
