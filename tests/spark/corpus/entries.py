"""The corpus: SQL texts in files, one entry per ``@ name: text``.

An entry ends where the next line begins with ``@``. ``@ name [refused: part of the finding]: text``
is one that Daybreak must refuse. What stands before the first entry of a file is a comment.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
_HEAD = re.compile(r"^@ (?P<name>[^:\[\n]+?)(?: \[refused: (?P<refused>.*?)\])?:", re.MULTILINE)


@dataclass(frozen=True)
class Entry:
    """One text; ``refused`` has a part of the finding, or None where it must run."""

    name: str
    sql: str
    refused: str | None = None


def read(file: str) -> list[Entry]:
    """The entries of one file."""
    text = (FOLDER / f"{file}.sql").read_text(encoding="utf-8")
    heads = list(_HEAD.finditer(text))
    assert len(heads) == len(re.findall("^@", text, re.MULTILINE)), f"{file}: a head is malformed"
    ends = [*(head.start() for head in heads[1:]), len(text)]
    return [
        Entry(head["name"], text[head.end() : end].strip("\n").removeprefix(" "), head["refused"])
        for head, end in zip(heads, ends, strict=True)
    ]


STREAMS = {entry.name: entry.sql for entry in read("streams")}
ENTRIES = [
    entry
    for file in ("texts", "names", "shapes", "guards", "types", "windows", "refused")
    for entry in read(file)
]
assert len({entry.name for entry in ENTRIES}) == len(ENTRIES), "two entries have one name"
