"""The code blocks of the documentation, and the commands in them.

A block that no test runs has a comment right above it, which no reader sees:
``<!-- not run: why -->``.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
_NOT_RUN = re.compile(r"<!-- not run: (.{10,}) -->\s*\Z")


@dataclass(frozen=True)
class Block:
    """One block of a page."""

    page: str
    line: int
    language: str
    text: str
    #: Why no test runs it.
    not_run: str | None

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[Path]:
    own = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "experiments/README.md")]
    return [*own, *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(*languages: str) -> Iterator[Block]:
    """Blocks in these languages, in the order of the pages."""
    for path in pages():
        text = path.read_text(encoding="utf-8")
        for found in _FENCE.finditer(text):
            if found[2] in languages:
                before = text[: found.start()]
                why = _NOT_RUN.search(before)
                yield Block(
                    page=str(path.relative_to(ROOT)),
                    line=before.count("\n") + 1,
                    language=found[2],
                    text=found[3],
                    not_run=why[1] if why else None,
                )


@dataclass(frozen=True)
class Command:
    """One command of a console block, as the shell would split it."""

    block: Block
    words: tuple[str, ...]

    @property
    def program(self) -> str:
        return self.words[0]

    @property
    def shown(self) -> str:
        return shlex.join(self.words)


def commands() -> Iterator[Command]:
    """What follows ``$``, and every line of a block of ``sh``."""
    for block in blocks("console", "text", "sh"):
        for line in block.text.replace("\\\n", " ").splitlines():
            typed = line if block.language == "sh" else line.partition("$ ")[2]
            if not typed or (block.language != "sh" and not line.startswith("$ ")):
                continue
            for part in _parts(typed):
                yield Command(block, part)


def _parts(line: str) -> Iterator[tuple[str, ...]]:
    """The commands of a line: between ``&&`` and ``|``, without comments and redirections."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="&|")
    lexer.whitespace_split = True
    part: list[str] = []
    words = iter(lexer)
    for word in words:
        if word == ">":
            next(words)
        elif set(word) <= set("&|"):
            yield tuple(part)
            part = []
        else:
            part.append(word)
    if part:
        yield tuple(part)
