"""Without PySpark: one clear message with the command that installs it."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

#: As if it were not installed.
HIDE = "import sys; sys.modules['pyspark'] = None; "


@pytest.mark.parametrize("code", ["import daybreak; daybreak.App", "from daybreak import App"])
def test_the_application_names_the_command_that_installs_pyspark(code: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", HIDE + code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.endswith("daybreak.App: PySpark is not installed; pip install 'daybreak[spark]'")
    assert "ModuleNotFoundError" not in done.stderr


def test_it_is_an_import_error_for_those_who_catch_one() -> None:
    code = (
        "try:\n    from daybreak import App\nexcept ImportError as error:\n    print(error.remedy)"
    )
    done = subprocess.run(
        [sys.executable, "-c", HIDE + "\n" + code],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == "pip install 'daybreak[spark]'"
