"""A module of ``daybreak.spark`` imports few others: none can become the place that knows all."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

SRC = Path(__file__).parents[2] / "src"
#: Twice as many, and a change anywhere is a change there; half, and modules only pass parts on.
MOST = 20


def _name(path: Path) -> str:
    return ".".join(path.relative_to(SRC).with_suffix("").parts).removesuffix(".__init__")


MODULES = {_name(path): path for path in (SRC / "daybreak").rglob("*.py")}


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(module)):
                for alias in node.names:
                    inner = f"{module}.{alias.name}"
                    yield inner if inner in MODULES else module
            case ast.Import():
                yield from (alias.name for alias in node.names)


def fan_out(module: str) -> int:
    """The number of modules of ours that a module imports, those for type checking included."""
    tree = ast.parse(MODULES[module].read_text(encoding="utf-8"))
    return len(MODULES.keys() & set(_imported(tree)))


def test_no_module_of_spark_imports_more_than_twenty_others() -> None:
    found = {name: fan_out(name) for name in MODULES if name.startswith("daybreak.spark.")}
    assert not {name: n for name, n in found.items() if n > MOST}


def test_an_import_of_a_module_from_its_package_counts_as_the_module() -> None:
    text = "from daybreak.spark import failures\nfrom daybreak.spark.failures import one_line\n"
    assert set(_imported(ast.parse(text))) == {"daybreak.spark.failures"}
