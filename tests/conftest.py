"""Settings of all tests."""

import os

from hypothesis import settings

# Where a build decides about a change, the same examples every time; elsewhere, new ones.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")
