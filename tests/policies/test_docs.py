"""The page on writing policies: its examples run, and obey the laws."""

import re
from pathlib import Path
from typing import Any

from daybreak.simulation.laws import LAWS

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "add-a-policy.md"


def test_the_examples_obey_the_laws() -> None:
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(from .*?)```", PAGE.read_text(), flags=re.DOTALL):
        exec(block, names)  # the last one runs the laws on the first example
    for law in LAWS:
        law(names["ByAge"])
