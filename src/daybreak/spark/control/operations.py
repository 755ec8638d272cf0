"""What an operator does to a running application, each between two scheduling decisions."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping
from concurrent.futures import Future
from contextvars import ContextVar
from hashlib import blake2b
from math import isfinite
from typing import TYPE_CHECKING, Any, Literal

from daybreak.engine.admission import Verdict
from daybreak.engine.events import (
    AddQuery,
    AssignClass,
    Drop,
    Pause,
    Resume,
    SetPriority,
    SetSubscribers,
    SetWeight,
    SwitchPolicy,
)
from daybreak.engine.inbox import Inbox
from daybreak.engine.queries import QueryStatus
from daybreak.model.errors import ConfigError, suggestion
from daybreak.model.network import Box, Query, Stream
from daybreak.model.overlaps import refuse_overlaps
from daybreak.model.specs import QuerySpec
from daybreak.model.sqlnames import tokens_in
from daybreak.policies.base import BasePolicy
from daybreak.policies.registry import all_policies, make_policy_with
from daybreak.spark.control.admission import admit
from daybreak.spark.declared import as_json
from daybreak.spark.driver import Make, new_command
from daybreak.spark.event_time import NEVER
from daybreak.spark.jobs.facts import facts_of
from daybreak.spark.jobs.panes import way_of
from daybreak.spark.jobs.runner import Runnable
from daybreak.spark.jobs.window_inbox import replayed
from daybreak.spark.log.rows import Cursor, Progress
from daybreak.spark.sinks.sinks import make_sink
from daybreak.spark.sinks.views import FORMAT as VIEW
from daybreak.spark.sinks.views import box_name
from daybreak.spark.sql.check import CheckedQuery, Checker
from daybreak.spark.sql.windows.check import event_times, refuse_long
from daybreak.spark.views import moved_views

if TYPE_CHECKING:
    from daybreak.spark.run import Run

#: An operator's change has to wait for a job at most.
PATIENCE_S = 120.0
#: Who asks for a change: whoever carries a request in says so, for the log of changes.
ACTOR: ContextVar[str] = ContextVar("actor", default="program")
Start = Literal["next", "earliest"]


def fingerprint(text: str) -> str:
    """Changes when the meaning of a query may have."""
    return blake2b(text.encode(), digest_size=16).hexdigest()


def sql_fingerprint(*texts: str) -> str:
    """Changes when a query's tokens do: layout, comments and a last semicolon do not matter.

    Behind the colon, the fingerprint that earlier versions made, for logs that hold it.
    """
    tokens = "\0".join("\1".join(tokens_in(sql)).rstrip("\1;") for sql in texts)
    earlier = "\0".join(" ".join(sql.split()) for sql in texts)
    return f"{fingerprint(tokens)}:{fingerprint(earlier)}"


def one_box(spec: QuerySpec, reads: tuple[str, ...]) -> tuple[Box, Query]:
    """On Spark a query is one box."""
    return Box(name=spec.name, inputs=reads, kind="filter"), Query(
        name=spec.name, output=spec.name, cls=spec.cls, qos=spec.qos, weight=spec.weight,
        subscribers=spec.subscribers,
    )  # fmt: skip


def unstarted(checked: CheckedQuery) -> Progress | None:
    """The progress of a query over windows that has emitted none; None of other queries."""
    return None if checked.windowing is None else Progress(NEVER, way_of(checked.panes))


def usable_on_spark(policy: BasePolicy) -> BasePolicy:
    """The policy itself; ``ConfigError`` if it makes no sense where a query is one box."""
    if not policy.on_spark:
        usable = [name for name, p in all_policies().items() if p.on_spark]
        raise ConfigError(
            f"policy {policy.name!r}",
            "makes no sense on Spark, where a query is one box",
            f"choose from {', '.join(usable)}",
        )
    return policy


class Operations:
    """The operator's side of a ``Run``. Methods may be called from any thread, and wait."""

    def __init__(self, run: Run) -> None:
        self._run = run
        #: Everything that was changed, in order, for the report.
        self.changes: list[dict[str, object]] = []

    def change_class_priority(self, cls: str, priority: float) -> None:
        index = self._class(cls)
        if not (isfinite(priority) and priority > 0):
            raise ConfigError(f"class {cls!r}", f"priority {priority}", "give one above 0")

        was = self._run.state.class_priority[index]
        self._ask(
            lambda: SetPriority(index, float(priority)),
            what="class-priority", subject=cls, was=was, value=priority,
        )  # fmt: skip

    def assign_class(self, query: str, cls: str) -> None:
        self._assign(query, self._class(cls))
        for view, index in moved_views(self._run.prepared, self._run.state):
            self._assign(view, index)

    def _assign(self, query: str, index: int) -> None:
        subject = self._query(query)
        self._ask(
            lambda: AssignClass(subject, index),
            what="query-class", subject=query, was=self._class_of(subject),
            value=self._run.prepared.network.classes[index].name,
        )  # fmt: skip

    def set_weight(self, query: str, weight: float) -> None:
        subject = self._query(query)
        if not 0 < weight <= 1:
            raise ConfigError(f"query {query!r}", f"weight {weight}", "give one in (0, 1]")
        was = self._run.state.query_weight[subject]
        self._ask(
            lambda: SetWeight(subject, weight), what="weight", subject=query, was=was, value=weight
        )

    def set_subscribers(self, query: str, count: int) -> None:
        subject = self._query(query)
        if count < 0:
            raise ConfigError(f"query {query!r}", f"{count} subscribers", "give 0 or more")
        was = self._run.state.subscribers.get(subject)
        self._ask(
            lambda: SetSubscribers(subject, count),
            what="subscribers", subject=query, was=was, value=count,
        )  # fmt: skip

    def set_policy(self, policy: str | BasePolicy, seed: int = 1) -> None:
        chosen = policy if isinstance(policy, BasePolicy) else make_policy_with(policy)
        usable_on_spark(chosen)
        was = self._run.policy.name
        self._ask(
            lambda: SwitchPolicy(chosen, seed),
            what="policy", subject=chosen.name, was=was, value=dict(chosen.settings()),
        )  # fmt: skip

    def pause(self, query: str) -> None:
        box, run = self._query(query), self._run

        def make() -> Pause:
            run.log.set_paused(query, paused=True)
            return Pause(box)

        was = self._status(box).state
        self._ask(make, what="paused", subject=query, was=was, value="paused")

    def resume(self, query: str, *, skip: bool = False) -> int:
        """Whatever held the query, a pause or its failures.

        ``skip`` first gives up the rows it failed on; returns how many.
        """
        run, box, number = self._run, self._query(query), new_command()
        run.healthy()
        was = self._status(box).state
        answer = run.driver.command(
            number,
            lambda: Resume(box, skip, number),
            # Unless somebody has paused it again while this waited for a job to end.
            lambda: run.log.set_paused(query, paused=self._status(box).state == "paused"),
        )
        skipped = self._wait(answer)
        value = f"running, {skipped} rows given up" if skipped else "running"
        self._note(what="resumed", subject=query, was=was, value=value)
        return skipped

    def drop(self, query: str) -> None:
        """Forgets the query and its place; its results stay. A job under way ends first."""
        run, undeclared = self._run, self._run.undeclared
        if query in undeclared.until and not self._known(query):
            self._ask(lambda: undeclared.forget(query, "dropped"))
            self._note(what="dropped", subject=query, was="undeclared", value="dropped")
            return
        box, number = self._query(query), new_command()

        def forget() -> None:
            run.log.drop_query(query)
            run.log.disown(query)

        run.healthy()
        was = self._status(box).state
        self._wait(run.driver.command(number, lambda: Drop(box, number), forget))
        self._note(what="dropped", subject=query, was=was, value="dropped")

    def register(
        self, spec: QuerySpec, start: Start = "next", *, force: bool = False, dry: bool = False
    ) -> Verdict:
        """A new query, from the next segment on or from the oldest that is kept.

        Refused if it would take more than there is, unless ``force``; ``dry`` only judges.
        """
        if spec.name in self._run.prepared.network.query_index and self._known(spec.name):
            raise ConfigError(spec.place, "is registered already", "drop it first, or rename it")
        if spec.name in self._run.undeclared.until:
            raise ConfigError(
                spec.place,
                "has a place in the streams from an earlier start that declared it",
                "declare it in the pipeline to continue there, drop it first, or rename it",
            )
        runnable = self.prepare(spec)
        verdict = admit(self._run, runnable, spec)
        if dry:
            return verdict
        if not (verdict.admitted or force):
            self._run.say(
                "admission-refused", f"would ask for {verdict.after:.0%} of what there is",
                level=logging.WARNING, query=spec.name, load=verdict.load, after=verdict.after,
            )  # fmt: skip
            raise ConfigError(
                spec.place,
                f"is not admitted: with it queries would ask for {verdict.after:.0%} of what "
                f"there is ({verdict.load:.0%} without it)",
                "drop or pause others, add workers, or insist with --force",
            )
        self._adopt(spec, runnable, start)
        self._run.start_sources()
        return verdict

    def prepare(self, spec: QuerySpec) -> Runnable:
        """Checks a query as at the start; nothing is changed."""
        run = self._run
        prepared = run.prepared
        if spec.cls not in prepared.network.class_index:
            remedy = suggestion(spec.cls, prepared.network.class_index)
            raise ConfigError(spec.place, f"class {spec.cls!r} is not declared", remedy)
        if not 0 < spec.weight <= 1:
            raise ConfigError(spec.place, f"weight {spec.weight}", "give one in (0, 1]")
        if spec.name in prepared.streams:
            raise ConfigError(spec.place, "a stream has the same name", "rename one of them")
        times = event_times(prepared.streams, prepared.schemas)
        checked = Checker(prepared.spark, prepared.schemas, times).sql(
            spec.name, spec.sql or "", spec.place
        )
        for stream in checked.reads:
            if prepared.streams[stream].format == VIEW and box_name(stream) not in prepared.checked:
                raise ConfigError(
                    spec.place,
                    f"reads view {stream!r}, which is not computed: no declared query reads it",
                    "declare this query in the pipeline and start again, or read its streams",
                )
        if checked.windowing is not None:
            refuse_long(checked.windowing, spec.place, prepared.max_window_us)
        assert spec.sink is not None
        others = [s for name, s in prepared.specs.items() if name != spec.name]
        refuse_overlaps(
            [*others, spec], prepared.streams.values(), prepared.folder, run.rundir.root
        )
        sink = make_sink(
            spec.name, spec.sink, prepared.folder, run.rundir.staging, place=spec.place,
            columns=checked.schema.names,
        )  # fmt: skip
        return Runnable(checked, sink)

    def _adopt(self, spec: QuerySpec, runnable: Runnable, start: Start) -> None:
        run, checked = self._run, runnable.checked
        mark = sql_fingerprint(spec.sql or "")

        def make() -> AddQuery:
            if self._known(spec.name):
                raise ConfigError(spec.place, "is registered already", "drop it first")
            run.time.adopt(spec.name, checked)
            starts = {stream: self._start(stream, start) for stream in checked.reads}
            run.log.register_query(spec.name, mark, starts, unstarted(checked), reset=True)
            run.log.declare(spec.name, json.dumps(as_json(spec)))
            network = run.prepared.network.with_query(
                *one_box(spec, checked.reads), [Stream(name=s) for s in checked.reads]
            )
            box = network.query_index[spec.name]
            run.adopt(spec, runnable, network, mark)
            run.monitor.adopt(network)
            run.late.adopt(spec.name, checked.windowing)
            run.driver.queries[box : box + 1] = [runnable]
            return AddQuery(box, facts_of(runnable, spec), network, self._inbox(checked, starts))

        self._ask(make, what="registered", subject=spec.name, was=None, value=start)

    def _start(self, stream: str, start: Start) -> Cursor:
        # Not the store's end: what lies beyond is announced to all queries, this one included.
        upcoming = Cursor(self._run.driver.engine.next_seq.get(stream, 0), 0)
        return min(self._run.store.begin(stream), upcoming) if start == "earliest" else upcoming

    def _inbox(self, checked: CheckedQuery, starts: Mapping[str, Cursor]) -> Inbox:
        run = self._run
        if checked.windowing is not None:
            return replayed(checked.windowing, run.store, starts)
        next_seq = run.driver.engine.next_seq
        return Inbox.of(
            item
            for stream in checked.reads
            for item in run.store.waiting(stream, starts[stream], next_seq.get(stream, 0))
        )

    def _known(self, name: str) -> bool:
        index = self._run.prepared.network.query_index.get(name)
        return index is not None and self._status(index).state != "dropped"

    def _status(self, box: int) -> QueryStatus:
        return self._run.driver.engine.queries.status[box]

    def _query(self, name: str) -> int:
        known = {n: i for n, i in self._run.prepared.network.query_index.items() if self._known(n)}
        return _index(known, "query", name)

    def _class(self, name: str) -> int:
        return _index(self._run.prepared.network.class_index, "class", name)

    def _class_of(self, query: int) -> str:
        run = self._run
        return run.prepared.network.classes[run.state.query_class[query]].name

    def _ask(self, make: Make, **about: object) -> None:
        self._run.healthy()
        self._wait(self._run.driver.ask(make))
        if about:
            self._note(**about)

    def _wait(self, answer: Future[int]) -> int:
        try:
            return answer.result(timeout=PATIENCE_S)
        except TimeoutError:
            self._run.healthy()
            raise ConfigError(
                self._run.prepared.name, f"has not come to it for {PATIENCE_S:g} s", "try again"
            ) from None

    def _note(self, **about: object) -> None:
        """Who changed what, and when: for the report, and at once for the event log."""
        run = self._run
        change = {
            "at_s": round(run.elapsed_s, 3), "time_s": round(time.time(), 3), "by": ACTOR.get(),
            **about,
        }  # fmt: skip
        self.changes.append(change)
        of_query = about["what"] not in ("class-priority", "policy")
        run.say(
            "change",
            f"{about['what']} {about['subject']}: {about.get('was')} -> {about.get('value')}",
            query=str(about["subject"]) if of_query else None,
            by=change["by"],
            what=about["what"],
            subject=about["subject"],
            was=about.get("was"),
            value=about.get("value"),
        )


def _index(known: Mapping[str, int], what: str, name: str) -> int:
    if name not in known:
        raise ConfigError(f"{what} {name!r}", "is not declared", suggestion(name, known))
    return known[name]


def described(run: Run) -> list[dict[str, Any]]:
    """Every query and how it stands, as JSON-able values."""
    network, state, driver = run.prepared.network, run.state, run.driver
    now_ns, losses = time.time_ns(), run.log.losses()
    found: list[dict[str, Any]] = []
    for q, query in enumerate(network.queries):
        standing = driver.engine.queries.status[q]
        if standing.state == "dropped":
            continue
        waiting, head_ns = driver.waiting(q)
        found.append(
            {
                "query": query.name,
                "class": network.classes[state.query_class[q]].name,
                "weight": state.query_weight[q],
                "state": standing.state,
                "waiting": waiting,
                "oldest_s": round((now_ns - head_ns) / 1e9, 3) if waiting else 0.0,
                "tuples": state.tuples_in[q],
                "rows": state.tuples_out[q],
                "jobs": state.calls[q],
                "cost_us": round(state.cost_ns[q] / 1e3, 3),
                "selectivity": round(state.selectivity[q], 6),
                "failures": standing.failures,
                "error": standing.error,
                "lost": losses.get(query.name, {}),
            }
        )
    return found


def streams(run: Run) -> dict[str, dict[str, Any]]:
    """Every stream: what is kept of it, what was malformed, what is wrong with its source."""
    errors = {**run.sources.errors(), **run.kafka.troubles}
    found: dict[str, dict[str, Any]] = {}
    for name in run.prepared.streams:
        kept = run.store.segments(name)
        found[name] = {
            "segments": len(kept),
            "bytes": sum(s.bytes for s in kept),
            "dead_letters": run.dead.count(name),
            "blocked": run.room.full,
            "error": errors.get(name),
        }
    return found
