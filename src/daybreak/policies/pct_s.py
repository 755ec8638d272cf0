"""PCT_S: a thread per class, two for the most important ones (class-based-thesis 6.2.1).

Classes are split by number of queries, as far as there are cores to spare.
"""

from __future__ import annotations

from daybreak.policies.pct import ThreadPerClass


class SplitThreadPerClass(ThreadPerClass):
    """PCT_S."""

    name = "pct-s"
    summary = "as pct, with the most important classes split in two where cores are spare"
    splits = True
