"""All generated pages, by their path below ``docs/``."""

from __future__ import annotations

from tools.reference.commands import commands_page
from tools.reference.errors import errors_page
from tools.reference.events import events_page
from tools.reference.metrics import metrics_page
from tools.reference.pipeline import pipeline_page
from tools.reference.policies import policies_page, policy_index, policy_page

from daybreak.policies.registry import BUILTIN


def pages() -> dict[str, str]:
    return {
        "reference/pipeline.md": pipeline_page(),
        "reference/commands.md": commands_page(),
        "reference/policies.md": policies_page(),
        "reference/metrics.md": metrics_page(),
        "reference/events.md": events_page(),
        "reference/errors.md": errors_page(),
        "policies/index.md": policy_index(),
        **{f"policies/{p.name}.md": policy_page(p) for p in BUILTIN},
    }
