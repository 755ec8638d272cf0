"""Numbers and tables as a person wants to read them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table


def duration(seconds: float) -> str:
    """A span of time with three figures and its unit: ``12.5 ms``."""
    if math.isnan(seconds):
        return "-"
    for limit, factor, unit in ((1e-6, 1e9, "ns"), (1e-3, 1e6, "µs"), (1.0, 1e3, "ms")):
        if abs(seconds) < limit:
            return f"{seconds * factor:.3g} {unit}" if seconds else "0"
    return f"{seconds:.3g} s" if seconds < 1000 else f"{seconds:,.0f} s"


def number(value: float, digits: int = 3) -> str:
    return "-" if math.isnan(value) else f"{value:.{digits}f}"


def count(value: int) -> str:
    return f"{value:,}".replace(",", " ")


def table(rows: Sequence[Sequence[str]], title: str | None = None) -> Table:
    """A table whose first row holds the headings; columns of figures to the right."""
    made = Table(
        title=title, title_justify="left", header_style="bold", box=SIMPLE_HEAD, pad_edge=False
    )
    heads, *body = rows
    for column, head in enumerate(heads):
        figures = all(_is_figure(row[column]) for row in body)
        made.add_column(head, justify="right" if figures and body else "left", no_wrap=figures)
    for row in body:
        made.add_row(*row)
    return made


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """The same table for a document."""
    heads, *body = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    lines = [heads, ["---"] * len(heads), *body]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _is_figure(cell: str) -> bool:
    return bool(cell) and (cell[0].isdigit() or cell[0] in "-.+")
