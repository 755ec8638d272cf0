"""The policies: one table of all, and a page for each."""

from __future__ import annotations

import inspect
import sys

from tools.reference.doc_comments import parameter_rows, prose
from tools.reference.markdown import page, table
from tools.schedules import WORKLOAD, caption

from daybreak.model.app_table import DEFAULT_POLICY
from daybreak.policies.base import BasePolicy
from daybreak.policies.registry import BUILTIN

#: Where the idea behind a policy is explained, by its name; the others are about classes.
EXPLAINED = {
    "planned": "[Planned periods](../planned.md)",
    **dict.fromkeys(
        ("round-robin", "fixed-priority", "fixed-priority-push", "slope-slack", "slope-slack-push",
         "bucketing", "bucketing-push", "bucketing-clearing", "thread-per-box", "fcfs"),
        "[Aurora](../aurora.md)",
    ),
    **dict.fromkeys(("taat", "baat", "aaat", "superbox"), "[Superboxes](../superboxes.md)"),
    **dict.fromkeys(
        ("fas-mcq", "fas-mcq-auto", "rb-mcq", "hr", "weighted-hr"),
        "[Freshness](../freshness-scheduling.md)",
    ),
}  # fmt: skip
_UNITS = {
    "tuple": "tuples", "box": "boxes", "query": "queries", "class": "classes, then queries",
}  # fmt: skip
CLASSES = "[Query classes](../classes.md)"


def policies_page() -> str:
    rows = [
        (
            f"[`{p.name}`](../policies/{p.name}.md)",
            p.summary,
            p.granularity,
            "no" if p.starves_nothing else "possible",
            "yes" if p.on_spark else "no",
            ", ".join(f"`{row[0].strip('`')}`" for row in parameter_rows(p.Params)) or "none",
        )
        for p in BUILTIN
    ]
    return page(
        "Policies",
        f"`policy` in [`[app]`](pipeline.md#app) names the policy; the default is "
        f"[`{DEFAULT_POLICY}`](../policies/{DEFAULT_POLICY}.md). Its parameters go into "
        "`[policy]`. `daybreak policies` prints this table, with the policies that other "
        "packages add ([how](../how-to/add-a-policy.md)).",
        table(("policy", "rule", "chooses among", "starvation", "on Spark", "parameters"), rows),
        "*Starvation: no* means that the policy guarantees to run whatever is pending eventually, "
        "whatever else arrives; a test checks every such policy. Policies that are not *on Spark* "
        "choose among the operators inside a query, which Spark runs as one job: they run in the "
        "simulator.",
    )


def policy_page(policy: type[BasePolicy]) -> str:
    module = sys.modules[policy.__module__]
    summary = policy.summary[0].upper() + policy.summary[1:] + "."
    facts = [
        ("chooses among", _UNITS[policy.granularity]),
        ("starvation", "none: whatever is pending runs eventually" if policy.starves_nothing
         else "possible under overload"),
        ("on Spark", "yes" if policy.on_spark else "no, in the simulator only"),
        ("keeps what it learned when a query is added", "yes" if policy.keeps_learning() else "no"),
        ("explained in", EXPLAINED.get(policy.name, CLASSES)),
        ("source", f"`{_source(policy)}`"),
    ]  # fmt: skip
    default = (
        "This is the default policy." if policy.name == DEFAULT_POLICY else
        f'```toml\n[app]\npolicy = "{policy.name}"\n```'
    )  # fmt: skip
    rows = parameter_rows(policy.Params)
    parameters = (
        "## Parameters\n\nIn `[policy]` of a pipeline file.\n\n"
        + table(("parameter", "type", "default", "meaning"), rows)
        if rows
        else "## Parameters\n\nNone."
    )
    return page(
        policy.name,
        f"**{summary}**",
        default,
        table(("property", ""), facts),
        "## Its schedule",
        f"![Schedule of {policy.name}: which query runs when](img/{policy.name}.svg)",
        caption(policy.name),
        "## How it decides",
        prose(module.__doc__),
        parameters,
    )


def _source(policy: type[BasePolicy]) -> str:
    path = inspect.getsourcefile(policy) or ""
    return path[path.index("src/daybreak") :]


def policy_index() -> str:
    """The gallery: every policy with its picture."""
    parts = [
        "One small workload, run in the simulator under every policy.",
        WORKLOAD,
        "`python -m tools.schedules` draws the pictures again; they are the same every time.",
    ]
    for p in BUILTIN:
        parts += [
            f"## [{p.name}]({p.name}.md)",
            f"{p.summary[0].upper()}{p.summary[1:]}.",
            f"[![Schedule of {p.name}](img/{p.name}.svg)]({p.name}.md)",
        ]
    return page("Policies and their schedules", *parts)
