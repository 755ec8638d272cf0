"""Whether a run can continue."""

from __future__ import annotations

from dataclasses import dataclass

from daybreak.model.errors import ConfigError
from daybreak.spark.ingest.sources import Sources
from daybreak.spark.loop.driver import Driver
from daybreak.spark.sinks.file_sync import FileSyncer


@dataclass(frozen=True)
class Health:
    """What a run cannot live without."""

    name: str
    driver: Driver
    syncer: FileSyncer
    sources: Sources

    def check(self) -> None:
        """Raises if a source, the disk or the scheduler itself has failed for good."""
        if self.driver.failure is not None:
            raise self.driver.failure
        if self.syncer.failure is not None:
            raise ConfigError(
                self.name,
                f"results cannot be made durable: {self.syncer.failure}",
                "see to the disk and start again; nothing is lost",
            )
        self.sources.check()
