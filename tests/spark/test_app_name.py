"""An application without a name is called after its script, and so is its run directory."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any, cast

import pytest

from daybreak.spark.app import App


@pytest.mark.parametrize(
    ("script", "name"),
    [("/home/me/fires.py", "fires"), ("/lib/watch/__main__.py", "watch"), (None, "daybreak")],
    ids=["a script", "a module", "a console"],
)
def test_two_scripts_do_not_share_a_name(
    monkeypatch: pytest.MonkeyPatch, script: str | None, name: str
) -> None:
    main = ModuleType("__main__")
    if script is not None:
        main.__file__ = script
    monkeypatch.setitem(sys.modules, "__main__", main)
    assert App(cast(Any, None)).name == name
    assert App(cast(Any, None), name="given").name == "given"
