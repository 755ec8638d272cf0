"""Writes the generated pages below ``docs/``, or compares them: ``python -m tools.reference``."""

from __future__ import annotations

import sys
from pathlib import Path

from tools.reference.pages import pages

DOCS = Path(__file__).parents[2] / "docs"


def main() -> int:
    check = "--check" in sys.argv[1:]
    stale = []
    for name, text in pages().items():
        path = DOCS / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(name)
            if not check:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
    for name in stale:
        print(f"{'out of date' if check else 'wrote'}: docs/{name}")
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
