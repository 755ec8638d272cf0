"""Queries in update mode: what is right, with the key of its rows, and what is refused."""

from __future__ import annotations

from dataclasses import dataclass

COUNTS = "SELECT k, count(*) AS n FROM rows GROUP BY k"
_WITH = f"WITH a AS ({COUNTS})"
_TAGGED = f"SELECT 'x' AS t, * FROM ({COUNTS})"
_NUMBERS = "WITH RECURSIVE t(m) AS (SELECT 1 UNION ALL SELECT m + 1 FROM t WHERE m < 3)"

#: Static tables beside the stream ``rows`` of ``feeds``.
STATIC = {
    "wanted": "SELECT id FROM range(1, 3)",
    "names": "SELECT * FROM VALUES ('a', 'first'), ('b', 'second'), ('b', 'again') AS t(k, name)",
}


@dataclass(frozen=True)
class Right:
    """A query that is accepted; ``key`` identifies its rows, None: each is emitted once."""

    sql: str
    key: tuple[str, ...] | None


RIGHT: dict[str, Right] = {
    "counts": Right(COUNTS, ("k",)),
    "renamed": Right("SELECT count(*) AS n, k AS name FROM rows GROUP BY k", ("name",)),
    "grouped by an expression": Right(
        "SELECT upper(k) AS u, sum(v) AS s FROM rows GROUP BY upper(k)", ("u",)
    ),
    "two keys": Right("SELECT v % 3 AS m, k, max(n) AS x FROM rows GROUP BY ALL", ("m", "k")),
    "a key in a struct": Right(
        "SELECT struct(k, v % 3 AS m) AS s, count(*) AS n FROM rows GROUP BY k, v % 3", ("s",)
    ),
    "a wider key": Right(
        "SELECT CAST(v AS BIGINT) AS v, n FROM "
        "(SELECT v, count(*) AS n FROM rows GROUP BY v)", ("v",)
    ),
    "one row": Right("SELECT count(*) AS n, max(v) AS v FROM rows", ()),
    "one row of none": Right("SELECT count(*) AS n FROM rows WHERE k = 'z'", ()),
    "a constant group": Right("SELECT count(*) AS n FROM rows GROUP BY 'x'", ()),
    "distinct": Right("SELECT DISTINCT k, v FROM rows", ("k", "v")),
    "union of two": Right(
        "SELECT k FROM rows WHERE v > 3 UNION SELECT k FROM rows WHERE v < 5", ("k",)
    ),
    "except": Right("SELECT k, v FROM rows EXCEPT SELECT k, 3 FROM names", ("k", "v")),
    "the start of a window": Right(
        "SELECT k, count(*) AS n, window.start AS s FROM rows GROUP BY k, window(at, '10 seconds')",
        ("k", "s"),
    ),
    "sliding windows": Right(
        "SELECT w.end AS e, sum(v) AS s FROM (SELECT v, window(at, '10 seconds', '5 seconds') AS w "
        "FROM rows) GROUP BY w", ("e",)
    ),
    "grouping sets": Right(
        "SELECT k, grouping_id() AS g, count(*) AS n FROM rows GROUP BY ROLLUP (k)", ("k", "g")
    ),
    "having a key": Right(f"{COUNTS} HAVING k <> 'a'", ("k",)),
    "filtered by a key": Right(
        f"SELECT * FROM (SELECT k, upper(k) AS u, n FROM ({COUNTS})) WHERE u <> 'A'", ("k",)
    ),
    "filtered above an aggregate": Right(
        "SELECT * FROM (SELECT k, upper(k) AS u, count(*) AS n FROM rows GROUP BY k) "
        "WHERE u <> 'A'", ("k",)
    ),
    "with": Right(f"{_WITH} SELECT * FROM a WHERE k <> 'b'", ("k",)),
    "with in with": Right(f"{_WITH}, b AS (SELECT n + 1 AS m, k FROM a) SELECT * FROM b", ("k",)),
    "with, twice": Right(
        f"{_WITH} SELECT 'x' AS t, k, n FROM a UNION ALL SELECT 'y', k, -n FROM a", ("t", "k")
    ),
    "tagged branches": Right(
        f"SELECT 1 AS t, * FROM ({COUNTS}) UNION ALL "
        "SELECT 2 AS t, k, max(n) FROM rows GROUP BY k UNION ALL "
        "SELECT 3L AS t, 'all', count(*) FROM rows", ("t", "k")
    ),
    "a tag dropped by its branch": Right(
        "SELECT * FROM (SELECT 'x' AS t, k, count(*) AS n FROM rows GROUP BY k UNION ALL "
        "SELECT 'y' AS t, k, max(n) FROM rows GROUP BY k) WHERE t = 'x' AND k > 'a'", ("t", "k")
    ),
    "semi join": Right(f"SELECT * FROM ({COUNTS}) c LEFT SEMI JOIN names t ON c.k = t.k", ("k",)),
    "anti join": Right(f"SELECT * FROM ({COUNTS}) c LEFT ANTI JOIN names t ON c.k = t.k", ("k",)),
    "join with unique rows": Right(
        f"SELECT c.k, name, n FROM ({COUNTS}) c LEFT JOIN "
        "(SELECT k, max(name) AS name FROM names GROUP BY k) t ON c.k = t.k", ("k",)
    ),
    "join in WHERE": Right(
        f"SELECT c.k, name, n FROM ({COUNTS}) c, "
        "(SELECT k, max(name) AS name FROM names GROUP BY k) t WHERE c.k = t.k", ("k",)
    ),
    "join whose rows are told apart": Right(
        f"SELECT c.k, name, n FROM ({COUNTS}) c JOIN (SELECT DISTINCT k, name FROM names) t "
        "ON c.k = t.k", ("k", "name")
    ),
    "join with numbers": Right(
        f"SELECT k, n FROM ({COUNTS}) JOIN wanted ON length(k) = id", ("k",)
    ),
    "single rows of a join": Right(
        "SELECT n FROM rows JOIN (SELECT max(id) AS m FROM wanted) ON n = m", None
    ),
    "join with one row": Right(
        f"SELECT k, n, m FROM ({COUNTS}) CROSS JOIN (SELECT max(id) AS m FROM wanted)", ("k",)
    ),
    "join below": Right(
        "SELECT r.k, name, count(*) AS n FROM rows r JOIN names t ON r.k = t.k GROUP BY r.k, name",
        ("k", "name"),
    ),
    "join of streams below": Right(
        "SELECT x.k, count(*) AS n FROM rows x JOIN rows y ON x.v = y.v GROUP BY x.k", ("k",)
    ),
    "join of streams": Right(
        "SELECT x.n, y.n AS m FROM rows x, rows y WHERE x.v = y.v AND x.n < y.n", None
    ),
    "single rows": Right(
        "SELECT n, explode(sequence(0, v % 2)) AS x FROM rows WHERE k <> 'a'", None
    ),
    "single rows of two": Right(
        "SELECT n FROM rows WHERE v > 3 UNION ALL SELECT v FROM rows", None
    ),
}  # fmt: skip

_KEY = "does not tell"
_LEAVING = "is not taken back"
_BRANCH = "no column tells the branch"
_MATCH = "several rows may match"

#: Queries whose newest rows would not be those of a batch, and what is said of them.
WRONG: dict[str, tuple[str, str]] = {
    "with, aggregated": (f"{_WITH} SELECT max(n) AS m, count(*) AS c FROM a", _LEAVING),
    "with, grouped": (f"{_WITH} SELECT n, count(*) AS c FROM a GROUP BY n", _LEAVING),
    "with, distinct": (f"{_WITH} SELECT DISTINCT n FROM a", _LEAVING),
    "with, filtered": (f"{_WITH} SELECT * FROM a WHERE n < 2", _LEAVING),
    "with, having": (f"{_WITH} SELECT k, n FROM a GROUP BY k, n HAVING k > 'a'", _LEAVING),
    "with in with, aggregated": (
        f"{_WITH}, b AS (SELECT n FROM a) SELECT count(*) AS c FROM b", _LEAVING
    ),
    "with, joined": (
        f"{_WITH} SELECT r.k, sum(a.n) AS s FROM rows r JOIN a ON r.k = a.k GROUP BY r.k", _LEAVING
    ),
    "with, joined with itself": (
        f"{_WITH} SELECT x.k, x.n, y.n AS m FROM a x JOIN a y ON x.k = y.k", _LEAVING
    ),
    "with, joined with a table": (f"{_WITH} SELECT a.* FROM a JOIN wanted ON n = id", _LEAVING),
    "with, without its key": (f"{_WITH} SELECT n FROM a", _KEY),
    "with, its key computed away": (f"{_WITH} SELECT length(k) AS l, n FROM a", _KEY),
    "with, twice and untagged": (f"{_WITH} SELECT * FROM a UNION ALL SELECT * FROM a", _BRANCH),
    "with, and rows": (f"{_WITH} SELECT * FROM a UNION ALL SELECT k, v FROM rows", "UNION ALL"),
    "with, exploded": (f"{_WITH} SELECT k, explode(array(1, 2)) AS x, n FROM a", _LEAVING),
    "with, of distinct rows": (
        "WITH d AS (SELECT DISTINCT k, v FROM rows) SELECT k, count(*) AS c FROM d GROUP BY k",
        _LEAVING,
    ),
    "without its key": ("SELECT count(*) AS n FROM rows GROUP BY k", _KEY),
    "a key computed away": ("SELECT upper(k) AS k, count(*) AS n FROM rows GROUP BY k", _KEY),
    "a key with a default": (
        "SELECT coalesce(k, '?') AS k, count(*) AS n FROM rows GROUP BY k", _KEY
    ),
    "a narrower key": (
        "SELECT CAST(v AS TINYINT) AS v, count(*) AS n FROM rows GROUP BY v", _KEY
    ),
    "half of a key": ("SELECT k, count(*) AS n FROM rows GROUP BY k, v", _KEY),
    "a window left out": (
        "SELECT k, count(*) AS n FROM rows GROUP BY k, window(at, '10 seconds')", _KEY
    ),
    "a column of DISTINCT left out": ("SELECT k FROM (SELECT DISTINCT k, v FROM rows)", _KEY),
    "grouping sets without their number": (
        "SELECT k, count(*) AS n FROM rows GROUP BY ROLLUP (k)", "grouping_id"
    ),
    "untagged branches": (
        f"{COUNTS} UNION ALL SELECT k, max(n) FROM rows GROUP BY k", _BRANCH
    ),
    "one tag for two branches": (
        f"{_TAGGED} UNION ALL {_TAGGED} UNION ALL SELECT 'y', * FROM ({COUNTS})", _BRANCH
    ),
    "a tag that may be NULL": (
        f"{_TAGGED} UNION ALL SELECT NULL, * FROM ({COUNTS})", _BRANCH
    ),
    "a tag left out": (
        f"SELECT k, n FROM ({_TAGGED} UNION ALL SELECT 'y', * FROM ({COUNTS}))",
        "the branch of UNION ALL",
    ),
    "an aggregate and rows": (f"{COUNTS} UNION ALL SELECT k, v FROM rows", "UNION ALL"),
    "having": (f"{COUNTS} HAVING count(*) < 9", _LEAVING),
    "filtered by a count": (f"SELECT * FROM ({COUNTS}) WHERE n < 9 AND k = 'a'", _LEAVING),
    "filtered by what follows from a count": (
        f"SELECT k, m FROM (SELECT k, n + 1 AS m FROM ({COUNTS})) WHERE m < 9", _LEAVING
    ),
    "joined by a count": (f"SELECT c.* FROM ({COUNTS}) c JOIN wanted ON n = id", _LEAVING),
    "joined with a table": (
        f"SELECT c.k, name, n FROM ({COUNTS}) c JOIN names t ON c.k = t.k", _MATCH
    ),
    "crossed with a table": (f"SELECT c.k, name, n FROM ({COUNTS}) c CROSS JOIN names", _MATCH),
    "joined, and not told apart": (
        f"SELECT c.k, n FROM ({COUNTS}) c JOIN (SELECT DISTINCT k, name FROM names) t ON c.k = t.k",
        "does not tell name",
    ),
    "except all": ("SELECT k FROM rows EXCEPT ALL SELECT k FROM names", "EXCEPT"),
    "lateral": (f"SELECT c.k, n, x FROM ({COUNTS}) c, LATERAL (SELECT c.n + 1 AS x)", _LEAVING),
    "exploded": (
        f"SELECT k, n, x FROM ({COUNTS}) LATERAL VIEW explode(array(1, 2)) AS x", _LEAVING
    ),
    "distinct, aggregated": (
        "SELECT k, count(*) AS c FROM (SELECT DISTINCT k, v FROM rows) GROUP BY k", "cannot run"
    ),
    "counts of distinct values": (
        "SELECT k, count(DISTINCT v) AS c FROM rows GROUP BY k", "Distinct aggregations"
    ),
    "streams crossed": (
        "SELECT x.n, y.n AS m FROM rows x CROSS JOIN rows y", "without equality predicate"
    ),
    "recursive": (
        f"{_NUMBERS} SELECT m, count(*) AS n FROM rows JOIN t ON v = m GROUP BY m",
        "has WITH RECURSIVE",
    ),
    "spellings of one key": (
        "SELECT k COLLATE UTF8_LCASE AS c, count(*) AS n FROM rows GROUP BY k COLLATE UTF8_LCASE",
        "spellings of one group",
    ),
    "the order of rows": ("SELECT k, first(v) AS v FROM rows GROUP BY k", r"uses first\(\)"),
}  # fmt: skip
