"""Numbers and tables as a person wants to read them."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table

from daybreak.runtime.display import count, duration, number

__all__ = ["count", "duration", "markdown", "number", "table"]


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
