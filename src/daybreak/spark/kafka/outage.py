"""A broker that goes away and comes back, as opposed to mistakes, which only a user can fix.

Nothing is lost in an outage. Spark's checkpoint holds the source's place, the commit log the
results that wait for their topic; both are tried again for as long as the run lasts.
"""

from __future__ import annotations

import re

#: Kafka's own names for what passes, in the text of a streaming query's failure.
_PASSING = re.compile(
    r"org\.apache\.kafka\.common\.errors\.(Timeout|Disconnect|Network|NotLeaderOrFollower|"
    r"LeaderNotAvailable|BrokerNotAvailable|NotEnoughReplicas|CoordinatorNotAvailable|"
    r"UnknownTopicOrPartition)\w*Exception|"
    r"Timed out waiting for a node assignment|Failed to construct kafka|"
    r"Failed to create new KafkaAdminClient|No resolvable bootstrap urls"
)
MARK = "Kafka outage: "


def passes(error: str) -> bool:
    """Whether the failure of a source is an outage."""
    return error.startswith(MARK) or _PASSING.search(error) is not None


def explained(error: str, where: str) -> str:
    """An outage in one line, with its place and its remedy."""
    if not passes(error) or error.startswith(MARK):
        return error
    found = _PASSING.search(error)
    assert found is not None
    line = next(line for line in error[: found.end() + 300].splitlines() if found[0] in line)
    why = " ".join(line[line.index(found[0]) :].split())[:200].removeprefix(
        "org.apache.kafka.common.errors."
    )
    return (
        f"{MARK}no answer from {where} ({why}); start the broker again. The stream resumes where "
        "it was, nothing is lost"
    )
