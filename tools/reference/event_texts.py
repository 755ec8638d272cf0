"""What each event means. ``events.py`` fails if one is missing here, or is emitted no more."""

from __future__ import annotations

MEANINGS = {
    "started": "The run began. `version` is the Daybreak that writes the lines that follow.",
    "waiting": "Another driver of this application holds the commit log in PostgreSQL.",
    "recovered": "Results that were committed before a crash have been delivered now.",
    "folder-unlocked": "The file system of a sink's folder holds no lock: nothing keeps another run "
    "directory from writing there.",
    "result-missing": "A committed result is lost: its staged file was removed before delivery.",
    "undeclared": "A query that an earlier start declared and this one does not keeps its place.",
    "forgotten": "The place of such a query was given up.",
    "prepared-plans": "Small trains run as [prepared plans](../design/prepared-plans.md), "
    "without Spark jobs.",
    "ordinary-jobs": "Every train takes a Spark job; `why` names what is missing.",
    "stopping": "A stop was requested.",
    "stopped": "The run ended.",
    "record-incomplete": "The run ended on a full disk: its record lacks the end.",
    "lease-lost": "Another driver took over the commit log; this one stops.",
    "job": "A job ended. `along` counts the queries that ran in it besides the first.",
    "job-failed": "A job failed. `failures` counts them in a row; `next` is the state of the "
    "query now.",
    "delivery-failed": "A sink refused a committed result, which is delivered again later.",
    "parked": "The query failed too often and no longer runs; its rows wait in the log.",
    "well-again": "The query works again after failures.",
    "ingest-stuck": "A granted step of a stream's ingest takes longer than `job_timeout_s`; its worker "
    "goes back to the queries.",
    "change": "The audit of what operators changed: `by`, `what`, `subject`, `was` and `value`.",
    "refused": "A command was refused.",
    "admission-refused": "A query was not registered because load would exceed `admit_load`.",
    "shedding-began": "Load shedding drops tuples; `shares` by query.",
    "shedding-ended": "Load shedding stopped; `rows` were dropped since it began.",
    "gave-up": "Rows were given up; `why` is `full`, `shed` (at level debug) or `skipped`; of a "
    "committed result (with its `job`) `refused` or `missing`.",
    "log-full": "Unread rows exceed `[log] max_bytes`: sources wait.",
    "log-has-room": "Sources continue.",
    "source-failed": "A source failed and is restarted; at level error it is not.",
    "stream-stopped": "A source failed too often. Its stream stops, the others go on.",
    "source-restarted": "A source was restarted.",
    "ingest-by-spark": "A stream cannot be read directly, for the reason that is given; a "
    "StreamingQuery reads it.",
    "ingest-by-jobs": "Direct reads of a stream failed three times in a row where Spark jobs "
    "succeeded; jobs read it until the next start.",
    "folder-polled": "inotify cannot watch a source's folder (its limits are in "
    "`/proc/sys/fs/inotify`); it is listed at each trigger instead.",
    "file-skipped": "A source passes over a file whose name is not UTF-8, or a folder that looks "
    "like a partition.",
    "file-changed": "A file was written to after a source had read it; what was added is not "
    "read. Files should be written elsewhere and moved.",
    "broker-lost": "A Kafka broker does not respond.",
    "broker-back": "The broker responds again.",
    "table-refreshed": "A static table was read again and has changed.",
    "trouble": "A maintenance task failed; it is tried again.",
    "trouble-over": "The maintenance task works again.",
    "governing": "StreamingQueries of this application are [governed](../governed.md).",
    "cannot-govern": "This Spark lacks what governing needs; its queries run ungoverned.",
    "governed": "A StreamingQuery is governed from now on.",
    "ungoverned": "A StreamingQuery runs ungoverned, and why.",
    "backlog-unknown": "The backlog of a governed query could not be determined.",
    "query-failed": "A governed query ended with an error.",
    "governor-failed": "The governor stopped with an error; all queries run ungoverned.",
}
