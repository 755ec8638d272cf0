"""Micro-batches that come again: the same ones change nothing, any other story is refused.

The checkpoint of a source and the segments of its stream are two records of what was read. Joining
records that differ would lose or repeat rows.
"""

from __future__ import annotations

import json
from contextlib import suppress

from daybreak.model import ConfigError
from daybreak.spark.log.rows import SegmentRow


def canonical(offsets: object) -> str:
    """Offsets as one text, equal for equal offsets, given as JSON text or as its value."""
    if isinstance(offsets, str):
        with suppress(ValueError):
            offsets = json.loads(offsets)
    return json.dumps(offsets, sort_keys=True, separators=(",", ":"))


def comes_again(newest: SegmentRow, checkpoint_id: str, batch_id: int) -> bool:
    """Whether a batch does not follow the newest segment of its stream.

    ``ConfigError`` if it comes from another checkpoint.
    """
    if newest.checkpoint_id != checkpoint_id:
        raise _mismatch(
            newest.stream,
            f"its segments end with batch {newest.batch_id} of checkpoint "
            f"{newest.checkpoint_id}, but batch {batch_id} comes from checkpoint "
            f"{checkpoint_id}: the checkpoint was deleted or replaced",
        )
    return batch_id <= newest.batch_id


def the_same(
    known: SegmentRow | None, newest: SegmentRow, batch_id: int, offsets: str
) -> SegmentRow:
    """The segment that was made of a batch; ``ConfigError`` if it was made of other rows."""
    if known is None:
        raise _mismatch(
            newest.stream,
            f"batch {batch_id} comes again though its segments go on to batch "
            f"{newest.batch_id}: the checkpoint was set back",
        )
    if known.offsets != offsets:
        raise _mismatch(
            newest.stream,
            f"batch {batch_id} comes again with offsets {_short(offsets)}, but its segment "
            f"holds {_short(known.offsets)}: the checkpoint was changed",
        )
    return known


def _short(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."


def _mismatch(stream: str, finding: str) -> ConfigError:
    return ConfigError(
        f"stream {stream!r}",
        finding,
        "put the checkpoint back as it was, or start with a new run directory",
    )
