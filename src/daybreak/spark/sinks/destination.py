"""Sinks of one's own: a class that writes rows to some place, and what it is given.

Daybreak does the rest: rows are staged before their commit, delivered after it, and delivered again
after a crash or a failure. ``conformance`` checks a destination against the contract.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import pyarrow as pa

from daybreak.model.errors import ConfigError
from daybreak.spark.log.rows import CommittedFile


@dataclass(frozen=True, slots=True)
class DeliveryId:
    """Identifies rows that are delivered; the same rows come again with an equal object."""

    query: str
    #: Unique among the jobs of all run directories.
    job: str
    #: Grows with every delivery of a query from one run directory. Deliveries of a query come one
    #: after the other, so a destination that stores the last number knows all that it has.
    number: int

    @classmethod
    def of(cls, file: CommittedFile) -> DeliveryId:
        """The delivery of a committed file."""
        return cls(file.query, file.job, file.id)

    @property
    def key(self) -> str:
        """The delivery as one text."""
        return f"{self.job}/{self.query}"

    @property
    def source(self) -> str:
        """Identifies the query within its run directory: numbers of one source grow."""
        return f"daybreak/{self.job.partition('-')[0]}/{self.query}"


@dataclass(frozen=True, kw_only=True)
class DeclaredSink:
    """What a query declares about its sink."""

    query: str
    #: With the variables of the environment filled in; what is secret is hidden in messages.
    options: Mapping[str, str] = field(default_factory=dict)
    #: As they stand in the declaration.
    raw_options: Mapping[str, str] = field(default_factory=dict)
    #: What the rows look like; None where the query has not been checked yet.
    schema: pa.Schema | None = None
    #: Where it is declared, for messages.
    place: str = ""
    #: How long a call may take before it is left behind.
    limit_s: float = 600.0

    def error(self, finding: str, remedy: str) -> ConfigError:
        """An error at the place of the declaration, to be raised."""
        return ConfigError(self.place, f"sink: {finding}", remedy)

    def need(self, option: str, example: str) -> str:
        """An option that must be given."""
        value = self.options.get(option, "").strip()
        if not value:
            raise self.error(f"option {option} is missing", f'give it: {option} = "{example}"')
        return value

    def flag(self, option: str, *, default: bool = False) -> bool:
        """An option that is true or false; ``ConfigError`` if it is anything else."""
        found = self.options.get(option, str(default).lower())
        if found not in ("true", "false"):
            raise self.error(f"{option} {found!r}", "give true or false")
        return found == "true"


class Destination(ABC):
    """Where the rows of one query go. Found by name in the entry point group ``daybreak.sinks``.

    Made once for a check of the pipeline and once for a run. Calls come from one thread at a time,
    not always the same one.
    """

    #: Names of the options it knows; others are refused.
    options: ClassVar[tuple[str, ...]] = ()
    #: Whether ``write`` ignores a delivery that it has written before.
    exactly_once: ClassVar[bool] = False

    def __init__(self, declared: DeclaredSink) -> None:
        """Reads the options; ``ConfigError`` (``declared.error``) if one is wrong."""
        self.declared = declared

    def check(self) -> None:
        """``ConfigError`` if it cannot be written to. Writes nothing.

        Called by ``daybreak check`` and before a run starts.
        """

    def accept(self, rows: pa.Table) -> None:
        """Raises if these rows can never be written.

        Called before they are committed: the query then narrows the failure down to fewer rows.
        """

    @abstractmethod
    def write(self, rows: pa.Table, delivery: DeliveryId) -> None:
        """Writes the rows; they are safe when it returns. At least one row.

        Called after the rows are committed. If it raises, or a crash comes before Daybreak has
        noted that it returned, the same rows come again with an equal ``delivery``, and nothing
        else of this query before. Raise ``SinkUnavailable`` in an outage: it is tried again for as
        long as that lasts. Any other exception counts as a failure of the query, which is parked
        after ``[limits] retries``.
        """

    def has(self, delivery: DeliveryId) -> bool:
        """Whether it is known to have written these rows; False where it cannot know."""
        return False

    def close(self) -> None:
        """Releases connections and the like; nothing is written afterwards."""
