"""A mirror kept fresh for real: sources, store, and the keeper that follows the plan."""

from daybreak.freshness.keep.config import KeepConfig, read_config
from daybreak.freshness.keep.fetchers import Fetchers
from daybreak.freshness.keep.keeper import MirrorKeeper
from daybreak.freshness.keep.mirror_source import Fetched, MirrorSource, SourceError
from daybreak.freshness.keep.source_kinds import make_sources
from daybreak.freshness.keep.store import Store

__all__ = [
    "Fetched",
    "Fetchers",
    "KeepConfig",
    "MirrorKeeper",
    "MirrorSource",
    "SourceError",
    "Store",
    "make_sources",
    "read_config",
]
