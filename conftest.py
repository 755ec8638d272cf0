"""Settings of all tests: which examples hypothesis draws, and how to draw them again."""

from __future__ import annotations

import gc
import os
from random import SystemRandom

import pytest
from hypothesis import settings

# Where a build decides about a change, the same examples every time; elsewhere, new ones. How long
# an example takes says more about the machine's load than about the code.
settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("here", deadline=None)
# For make test-fast; a test that sets its number of examples keeps it.
settings.register_profile(
    "fast", derandomize=bool(os.environ.get("CI")), deadline=None, max_examples=25
)
PROFILE = "ci" if os.environ.get("CI") else "here"
settings.load_profile(PROFILE)

SEED = "hypothesis_seed"


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    # Before hypothesis reads it.
    if PROFILE == "here" and getattr(config.option, SEED, None) is None:
        setattr(config.option, SEED, SystemRandom().randrange(2**32))


def pytest_collection_finish() -> None:
    """Modules and tests live until the end: no collection need look at them again."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    seed = getattr(config.option, SEED, None)
    used = f"seed {seed}; repeat with --hypothesis-seed={seed}"
    if PROFILE == "ci" and seed is None:
        used = "profile ci, the same examples every time"
    terminalreporter.write_line(f"hypothesis: {used}")
