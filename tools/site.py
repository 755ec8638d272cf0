"""Builds the documentation site into ``build/site``: ``make docs``, or ``python -m tools.site``.

Pages link to files beside ``docs/`` (examples, the changelog), as a reader on a code host expects.
A site has only what is below its own folder, so ``docs/`` is copied to ``build/docs`` together with
these files, and such links are rewritten: Markdown becomes a page at the same path, any other text
file a page that shows it. A link to nothing ends the build, as does every warning of the generator.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
STAGED = ROOT / "build" / "docs"
#: Pages of the repository that are part of the site, linked or not.
PROJECT = ("CONTRIBUTING.md", "CHANGELOG.md", "experiments/README.md")
_LINK = re.compile(r"(!?\[(?:[^][]|\[[^][]*\])*\])\(([^()\s]+)\)")
_FENCE = re.compile(r"^(```|~~~)")
_LANGUAGES = {".py": "python", ".toml": "toml", ".yml": "yaml", ".sh": "bash", ".sql": "sql"}


class Staging:
    """Copies pages and what they link to; gathers links that lead nowhere."""

    def __init__(self, to: Path = STAGED) -> None:
        self.broken: list[str] = []
        self._to = to
        self._done: set[Path] = set()

    def run(self) -> None:
        shutil.rmtree(self._to, ignore_errors=True)
        for path in sorted(DOCS.rglob("*")):
            if path.is_file():
                self.add(path)
        for name in PROJECT:
            self.add(ROOT / name)

    def add(self, path: Path) -> Path:
        """Copies a file, once; returns where to."""
        to = self.place(path)
        if path in self._done:
            return to
        self._done.add(path)
        to.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".md":
            to.write_text(self._rewritten(path, to), encoding="utf-8")
        elif path.is_relative_to(DOCS):
            shutil.copyfile(path, to)
        else:
            to.write_text(_shown(path), encoding="utf-8")
        return to

    def place(self, path: Path) -> Path:
        if path.is_relative_to(DOCS):
            return self._to / path.relative_to(DOCS)
        inner = path.relative_to(ROOT)
        return self._to / (inner if path.suffix == ".md" else Path("files", f"{inner}.md"))

    def _rewritten(self, page: Path, to: Path) -> str:
        lines, fence = [], False
        for line in page.read_text(encoding="utf-8").splitlines(keepends=True):
            fence ^= bool(_FENCE.match(line.lstrip()))
            lines.append(line if fence else _LINK.sub(lambda m: self._link(m, page, to), line))
        return "".join(lines)

    def _link(self, match: re.Match[str], page: Path, to: Path) -> str:
        text, target = match[1], match[2]
        if re.match(r"[a-z]+:|#", target):
            return match[0]
        path, mark, anchor = target.partition("#")
        found = Path(os.path.normpath(page.parent / path))
        if found.is_dir():
            found /= "README.md"
        if not found.is_file():
            self.broken.append(f"{page.relative_to(ROOT)}: {target}")
            return match[0]
        if found == ROOT / "README.md":
            found = DOCS / "index.md"
        staged = self.add(found)
        return f"{text}({Path(os.path.relpath(staged, to.parent)).as_posix()}{mark}{anchor})"


def _shown(path: Path) -> str:
    name = path.relative_to(ROOT)
    text = path.read_text(encoding="utf-8").rstrip("\n")
    return f"# {name}\n\n````{_LANGUAGES.get(path.suffix, 'text')}\n{text}\n````\n"


def main() -> int:
    staging = Staging()
    staging.run()
    for link in staging.broken:
        print(f"leads nowhere: {link}", file=sys.stderr)
    if staging.broken:
        return 1
    zensical = Path(sys.executable).with_name("zensical")
    command = [str(zensical), "build", "--clean", "--strict", "-f", str(ROOT / "mkdocs.yml")]
    return subprocess.call(command, cwd=ROOT)  # noqa: S603


if __name__ == "__main__":
    sys.exit(main())
