"""The page asks why a query or a class was late, and gets the lines of the command."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlencode

import pyarrow.parquet as pq
from tests.dashboard.web import ask
from tests.simulation.recording import model, record

from daybreak.dashboard.server import Dashboard
from daybreak.dashboard.source import RunFolder
from daybreak.policies.registry import make_policy_with
from daybreak.runtime.why.answers import WAITS_FILE, SlowAnswer, as_table

MS = 1_000_000


def test_the_worst_answer_of_a_class_is_explained(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    made = model(span_s=1.0, workers=1)
    report = record(made, make_policy_with("round-robin"), folder)
    slowest = report.outputs.query[
        max(
            (i for i, c in enumerate(report.class_of_output) if report.classes[c] == "low"),
            key=lambda i: report.response_s[i],
        )
    ]
    name = report.queries[int(slowest)]
    answer = SlowAnswer(
        name, 5, "readings", 3, 5, None, 0, 2 * MS, 30 * MS, 31 * MS, 40 * MS, 50 * MS, 51 * MS,
        1, "prepared", 0, 9 * MS, '[["overrun", 28000000, "no worker was free: hot0 ran 9 s"]]',
    )  # fmt: skip
    pq.write_table(as_table([answer], SlowAnswer), folder / WAITS_FILE)
    with Dashboard(RunFolder(folder), folder=folder, port=0) as served:
        found = ask(served, "GET", f"/api/why?{urlencode({'class': 'low'})}")
        assert (found.status, found.json["query"]) == (200, name)
        assert any("hot0 ran 9 s  [overrun]" in line for line in found.json["lines"])
        same = ask(served, "GET", f"/api/why?{urlencode({'query': name})}")
        assert same.json == found.json
        for asked, finding in (("query=nobody", "nobody"), ("class=none", "none"), ("", "None")):
            refused = ask(served, "GET", f"/api/why?{asked}")
            assert refused.status == 400
            assert finding in refused.json["error"]["place"]
        strange = ask(served, "GET", "/api/why?class=low", {"Host": "evil.example"})
        assert strange.status in (400, 403, 421)
