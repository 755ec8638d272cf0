"""Settings of all tests."""

import os

from hypothesis import settings

# Where a build decides about a change, the same examples every time; elsewhere, new ones. How long
# an example takes says more about the machine's load than about the code.
settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("here", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "here")
