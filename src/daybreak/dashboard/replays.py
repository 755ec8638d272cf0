"""What-if for the page: one replay at a time, in a process of its own that yields to the run.

    python -m daybreak.dashboard.replays RUN POLICY...

prints lines of JSON: how much is done, and last the result or what went wrong.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from daybreak.model.errors import ConfigError, suggestion
from daybreak.policies.registry import all_policies

#: The newest part of a long run is enough, and soon done.
LAST_S = 600.0
MOST_POLICIES = 4


class Replays:
    """Replays what a run has recorded so far. Methods may be called from any thread."""

    def __init__(self, folder: Path | None) -> None:
        """None where there is no folder: then every start is refused."""
        self._folder = folder
        self._guard = threading.Lock()
        self._state: dict[str, Any] = {"state": "none"}
        self._process: subprocess.Popen[str] | None = None

    def start(self, policies: Sequence[Any]) -> dict[str, Any]:
        """Begins; ``ConfigError`` while another one goes on, or where a policy is unknown."""
        if self._folder is None:
            raise ConfigError("what-if", "the run has no folder", "use daybreak whatif")
        if not policies or len(policies) > MOST_POLICIES:
            raise ConfigError("what-if", f"{len(policies)} policies", f"give 1 to {MOST_POLICIES}")
        known = all_policies()
        for policy in policies:
            if not isinstance(policy, str) or policy not in known:
                raise ConfigError("what-if", f"policy {policy!r}", suggestion(str(policy), known))
        with self._guard:
            if self._state["state"] == "running":
                raise ConfigError("what-if", "another one is running", "wait for it")
            self._state = {"state": "running", "policies": list(policies), "done": 0.0}
            command = [sys.executable, "-m", __name__, str(self._folder), *policies]
            self._process = subprocess.Popen(  # noqa: S603  # our own module, known policies
                command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
        threading.Thread(
            target=self._hear, args=(self._process,), name="daybreak-whatif", daemon=True
        ).start()
        return self.status()

    def status(self) -> dict[str, Any]:
        """``state``: none, running (with ``done``, a share), ended (``result``) or failed."""
        with self._guard:
            return dict(self._state)

    def close(self) -> None:
        """Ends a replay that goes on."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()

    def _hear(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                with self._guard:
                    self._state.update(json.loads(line))
        process.wait()
        with self._guard:
            if self._state["state"] == "running":
                self._state.update(state="failed", error="it was ended")


def main(arguments: Sequence[str]) -> None:
    """The process: replays and tells."""
    from daybreak.simulation.whatif import Wanted, what_if

    os.nice(10)  # the run goes first
    told = -1

    def progress(done: int, total: int) -> None:
        nonlocal told
        if (percent := done * 100 // max(1, total)) != told:
            told = percent
            _tell(done=percent / 100)

    folder, policies = Path(arguments[0]), [Wanted(policy) for policy in arguments[1:]]
    try:
        found = what_if(folder, policies, last_s=LAST_S, progress=progress)
        _tell(state="ended", result=found.as_json())
    except Exception as error:  # told on the page
        said = str(error) if isinstance(error, ConfigError) else f"{type(error).__name__}: {error}"
        _tell(state="failed", error=said)


def _tell(**news: Any) -> None:
    sys.stdout.write(json.dumps(news) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
