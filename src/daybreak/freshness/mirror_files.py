"""Mirrors read from CSV or Parquet files, plans written to them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from daybreak.freshness.mirror import Floats, Mirror, freshness
from daybreak.freshness.refresh_limits import RefreshLimits
from daybreak.freshness.refresh_planner import RefreshPlan
from daybreak.model.errors import ConfigError, suggestion

# pyarrow is imported where it is used: most commands do without.
if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True, eq=False)
class MirrorTable:
    """A mirror with its objects' names and the limits given per object."""

    ids: pa.ChunkedArray | pa.Array
    mirror: Mirror
    floor: Floats | None
    cap: Floats | None
    groups: tuple[str, ...]
    group: np.ndarray | None

    def limits(self, floor: Floats | None, group_caps: dict[str, float]) -> RefreshLimits:
        """The file's limits together with further floors and the groups' caps."""
        floors = [f for f in (self.floor, floor) if f is not None]
        joined = np.maximum.reduce(floors) if floors else None
        if not group_caps:
            return RefreshLimits(joined, self.cap)
        if self.group is None:
            raise ConfigError("group caps", "the file has no column group", "add it")
        caps = np.full(len(self.groups), group_caps.get("*", np.inf))
        for name, cap in group_caps.items():
            if name == "*":
                continue
            if name not in self.groups:
                raise ConfigError("group caps", f"no group {name!r}", suggestion(name, self.groups))
            caps[self.groups.index(name)] = cap
        return RefreshLimits(joined, self.cap, self.group, caps, self.groups)


def read_table(path: Path) -> pa.Table:
    """A CSV (by its ending .csv) or Parquet file."""
    import pyarrow as pa
    import pyarrow.csv as pa_csv
    import pyarrow.parquet as pa_parquet

    try:
        if path.suffix == ".csv":
            return pa_csv.read_csv(path)
        return pa_parquet.read_table(path)
    except (OSError, pa.ArrowException) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(str(path), f"cannot be read ({reason})", "give CSV or Parquet") from error


def read_mirror(path: Path) -> MirrorTable:
    """Columns: change_rate; if there, id, access, size, floor, cap (per period) and group."""
    import pyarrow as pa

    table = read_table(path)
    if "change_rate" not in table.column_names:
        close = suggestion("change_rate", table.column_names)
        raise ConfigError(str(path), "no column change_rate", f"rename one: {close}")
    place = str(path)
    rates = _numbers(table, "change_rate", place)
    assert rates is not None
    access, size = (_numbers(table, name, place) for name in ("access", "size"))
    mirror = Mirror.of(rates, access, size, place)
    groups, group = _groups(table)
    ids = table["id"] if "id" in table.column_names else pa.array(np.arange(len(mirror)))
    floor, cap = (_numbers(table, name, place) for name in ("floor", "cap"))
    return MirrorTable(ids, mirror, floor, cap, groups, group)


def _numbers(table: pa.Table, name: str, place: str) -> Floats | None:
    import pyarrow as pa

    if name not in table.column_names:
        return None
    try:
        column = table[name].cast(pa.float64())
    except pa.ArrowException as error:
        raise ConfigError(place, f"column {name} is not numeric", "give numbers") from error
    if column.null_count:
        row = int(np.argmax(np.asarray(column.is_null())))
        raise ConfigError(place, f"{name} of row {row} is missing", "fill it or drop the row")
    return np.asarray(column.to_numpy(), np.float64)


def _groups(table: pa.Table) -> tuple[tuple[str, ...], np.ndarray | None]:
    import pyarrow as pa

    if "group" not in table.column_names:
        return (), None
    coded = table["group"].cast(pa.string()).combine_chunks().dictionary_encode()
    names = tuple(str(n) for n in coded.dictionary.to_pylist())
    return names, np.asarray(coded.indices.to_numpy(zero_copy_only=False), np.int64)


def write_plan(path: Path, given: MirrorTable, made: RefreshPlan) -> None:
    """id, frequency, interval (in periods), freshness and bandwidth of every object."""
    import pyarrow as pa
    import pyarrow.csv as pa_csv
    import pyarrow.parquet as pa_parquet

    with np.errstate(divide="ignore"):
        interval = 1 / made.frequency
    columns: dict[str, Any] = {
        "id": given.ids,
        "frequency": made.frequency,
        "interval": pa.array(interval, mask=made.frequency == 0),
        "freshness": freshness(made.frequency, given.mirror.change_rate),
        "bandwidth": made.frequency * given.mirror.size,
    }
    table = pa.table(columns)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    if path.suffix == ".csv":
        pa_csv.write_csv(table, partial)
    else:
        pa_parquet.write_table(table, partial)
    partial.replace(path)
