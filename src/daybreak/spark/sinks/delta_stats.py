"""Statistics of a file of a Delta table, by which readers skip files."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

#: As other writers do: beyond so many columns statistics cost more than they save.
MOST_COLUMNS = 32
_LONGEST_TEXT = 32


def statistics(rows: pa.Table) -> dict[str, Any]:
    """Number of rows, and per column nulls and bounds where they are exact."""
    lows: dict[str, Any] = {}
    highs: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for name in rows.column_names[:MOST_COLUMNS]:
        column = rows.column(name)
        if kinds.is_nested(column.type):
            continue
        nulls[name] = column.null_count
        if (
            kinds.is_integer(column.type)
            or kinds.is_string(column.type)
            or kinds.is_date(column.type)
        ):
            bounds = pc.min_max(column)
            shown = [_shown(bounds["min"]), _shown(bounds["max"])]
            if None not in shown:
                lows[name], highs[name] = shown
    return {
        "numRecords": rows.num_rows, "minValues": lows, "maxValues": highs, "nullCount": nulls,
    }  # fmt: skip


def _shown(of: pa.Scalar) -> Any:
    """None for a bound that is left out: a long text is no longer one when it is cut.

    So is a date that Python's calendar does not have, and a text that is not UTF-8.
    """
    try:
        bound = of.as_py()
    except (OverflowError, UnicodeDecodeError):
        return None
    if isinstance(bound, str):
        return bound if len(bound) <= _LONGEST_TEXT else None
    return bound.isoformat() if hasattr(bound, "isoformat") else bound
