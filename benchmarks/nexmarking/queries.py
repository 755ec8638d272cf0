"""Nexmark's q0 to q22 in Spark's dialect, each in the mode that fits."""

from __future__ import annotations

from dataclasses import dataclass

from daybreak.model.specs import Mode

_HOP = "window(dateTime, '10 seconds', '2 seconds')"
_TUMBLE = "window(dateTime, '10 seconds')"
_WINNING = """
SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY price DESC, bidTime ASC) AS rownum
FROM (
  SELECT A.id, A.seller, A.category, A.itemName, A.expires, B.auction, B.bidder, B.price,
         B.dateTime AS bidTime, B.extra AS bidExtra
  FROM auction A, bid B
  WHERE A.id = B.auction AND B.dateTime BETWEEN A.dateTime AND A.expires
)
"""
_DAY = "DATE_FORMAT(dateTime, 'yyyy-MM-dd')"
_RANKS = """
count(*) AS total_bids,
count(*) FILTER (WHERE price < 10000) AS rank1_bids,
count(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_bids,
count(*) FILTER (WHERE price >= 1000000) AS rank3_bids
"""


def _distinct(column: str) -> str:
    return f"""
count(DISTINCT {column}) AS total_{column}s,
count(DISTINCT {column}) FILTER (WHERE price < 10000) AS rank1_{column}s,
count(DISTINCT {column}) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_{column}s,
count(DISTINCT {column}) FILTER (WHERE price >= 1000000) AS rank3_{column}s
"""


@dataclass(frozen=True)
class NexmarkQuery:
    """One query, and what stock Structured Streaming does with the same text."""

    sql: str
    #: What it asks for, in a few words.
    asks: str
    mode: Mode = "append"
    #: In update mode, the columns that identify a row.
    key: tuple[str, ...] = ()
    #: A condition on rows that append mode has not given by the end: of windows that are open.
    closed: str | None = None


QUERIES: dict[str, NexmarkQuery] = {
    "q0": NexmarkQuery("SELECT auction, bidder, price, dateTime, extra FROM bid", "pass through"),
    "q1": NexmarkQuery(
        "SELECT auction, bidder, CAST(0.908 * price AS DECIMAL(23, 3)) AS price, dateTime, extra "
        "FROM bid",
        "currency conversion",
    ),
    "q2": NexmarkQuery("SELECT auction, price FROM bid WHERE MOD(auction, 123) = 0", "selection"),
    "q3": NexmarkQuery(
        "SELECT P.name, P.city, P.state, A.id FROM auction AS A INNER JOIN person AS P "
        "ON A.seller = P.id WHERE A.category = 10 "
        "AND (P.state = 'OR' OR P.state = 'ID' OR P.state = 'CA')",
        "who sells in some states: an unbounded join",
    ),
    "q4": NexmarkQuery(
        "SELECT Q.category, AVG(Q.final) AS final FROM ("
        "SELECT MAX(B.price) AS final, A.category FROM auction A, bid B WHERE A.id = B.auction "
        "AND B.dateTime BETWEEN A.dateTime AND A.expires GROUP BY A.id, A.category) Q "
        "GROUP BY Q.category",
        "average of closing prices by category",
        "complete",
    ),
    "q5": NexmarkQuery(
        f"""
SELECT AuctionBids.auction, AuctionBids.num FROM (
  SELECT auction, count(*) AS num, {_HOP} AS w FROM bid GROUP BY auction, {_HOP}
) AuctionBids JOIN (
  SELECT max(CountBids.num) AS maxn, CountBids.w FROM (
    SELECT count(*) AS num, {_HOP} AS w FROM bid GROUP BY auction, {_HOP}
  ) CountBids GROUP BY CountBids.w
) MaxBids ON AuctionBids.w = MaxBids.w AND AuctionBids.num >= MaxBids.maxn
""",
        "hot items of sliding windows",
        "complete",
    ),
    "q6": NexmarkQuery(
        f"""
SELECT seller, AVG(price) OVER (
  PARTITION BY seller ORDER BY bidTime ROWS BETWEEN 10 PRECEDING AND CURRENT ROW) AS avg_price
FROM ({_WINNING}) WHERE rownum <= 1
""",
        "average of a seller's last ten closing prices",
        "complete",
    ),
    "q7": NexmarkQuery(
        f"""
SELECT B.auction, B.price, B.bidder, B.dateTime, B.extra FROM bid B JOIN (
  SELECT MAX(price) AS maxprice, {_TUMBLE}.end AS dateTime FROM bid GROUP BY {_TUMBLE}
) B1 ON B.price = B1.maxprice
WHERE B.dateTime BETWEEN B1.dateTime - INTERVAL '10' SECOND AND B1.dateTime
""",
        "highest bids of windows",
        "complete",
    ),
    "q8": NexmarkQuery(
        f"""
SELECT P.id, P.name, P.w.start AS starttime FROM (
  SELECT id, name, {_TUMBLE} AS w FROM person GROUP BY id, name, {_TUMBLE}
) P JOIN (
  SELECT seller, {_TUMBLE} AS w FROM auction GROUP BY seller, {_TUMBLE}
) A ON P.id = A.seller AND P.w = A.w
""",
        "new sellers by window: a window join",
    ),
    "q9": NexmarkQuery(
        "SELECT id, itemName, seller, category, expires, auction, bidder, price, bidTime, bidExtra "
        f"FROM ({_WINNING}) WHERE rownum <= 1",
        "winning bids",
        "complete",
    ),
    "q10": NexmarkQuery(
        f"SELECT auction, bidder, price, dateTime, extra, {_DAY} AS day, "
        "DATE_FORMAT(dateTime, 'HH:mm') AS minute FROM bid",
        "log to partitioned files",
    ),
    "q11": NexmarkQuery(
        "SELECT bidder, count(*) AS bid_count, session_window.start AS starttime, "
        "session_window.end AS endtime FROM bid "
        "GROUP BY bidder, session_window(dateTime, '10 seconds')",
        "bids of a user's sessions",
        closed="endtime",
    ),
    "q12": NexmarkQuery(
        "SELECT bidder, count(*) AS bid_count, window.start AS starttime, window.end AS endtime "
        "FROM bid GROUP BY bidder, window(p_time, '10 seconds')",
        "bids of windows of processing time",
        "update",
        ("bidder", "starttime"),
    ),
    "q13": NexmarkQuery(
        "SELECT B.auction, B.bidder, B.price, B.dateTime, S.value FROM bid B "
        "JOIN side_input S ON MOD(B.auction, 100) = S.key",
        "join with a table",
    ),
    "q14": NexmarkQuery(
        "SELECT auction, bidder, 0.908 * price AS price, "
        "CASE WHEN HOUR(dateTime) >= 8 AND HOUR(dateTime) <= 18 THEN 'dayTime' "
        "WHEN HOUR(dateTime) <= 6 OR HOUR(dateTime) >= 20 THEN 'nightTime' "
        "ELSE 'otherTime' END AS bidTimeType, dateTime, extra, count_char(extra, 'c') AS c_counts "
        "FROM bid WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000",
        "calculation with a function of the user's",
    ),
    "q15": NexmarkQuery(
        f"SELECT {_DAY} AS day, {_RANKS}, {_distinct('bidder')}, {_distinct('auction')} "
        f"FROM bid GROUP BY {_DAY}",
        "statistics of a day, with distinct counts",
        "complete",
    ),
    "q16": NexmarkQuery(
        f"SELECT channel, {_DAY} AS day, max(DATE_FORMAT(dateTime, 'HH:mm')) AS minute, {_RANKS}, "
        f"{_distinct('bidder')}, {_distinct('auction')} FROM bid GROUP BY channel, {_DAY}",
        "the same by channel",
        "complete",
    ),
    "q17": NexmarkQuery(
        f"SELECT auction, {_DAY} AS day, {_RANKS}, min(price) AS min_price, "
        "max(price) AS max_price, avg(price) AS avg_price, sum(price) AS sum_price "
        f"FROM bid GROUP BY auction, {_DAY}",
        "statistics of auctions",
        "update",
        ("auction", "day"),
    ),
    "q18": NexmarkQuery(
        "SELECT auction, bidder, price, channel, url, dateTime, extra FROM (SELECT *, ROW_NUMBER() "
        "OVER (PARTITION BY bidder, auction ORDER BY dateTime DESC) AS rank_number FROM bid) "
        "WHERE rank_number <= 1",
        "last bid of each bidder for each auction",
        "complete",
    ),
    "q19": NexmarkQuery(
        "SELECT * FROM (SELECT auction, bidder, price, dateTime, ROW_NUMBER() OVER "
        "(PARTITION BY auction ORDER BY price DESC) AS rank_number FROM bid) "
        "WHERE rank_number <= 10",
        "ten highest bids of each auction",
        "complete",
    ),
    "q20": NexmarkQuery(
        "SELECT B.auction, B.bidder, B.price, B.channel, B.url, B.dateTime AS bid_dateTime, "
        "A.itemName, A.description, A.initialBid, A.reserve, A.dateTime, A.expires, A.seller, "
        "A.category FROM bid AS B INNER JOIN auction AS A ON B.auction = A.id "
        "WHERE A.category = 10",
        "bids with their auctions: an unbounded join",
    ),
    "q21": NexmarkQuery(
        "SELECT auction, bidder, price, channel, CASE WHEN lower(channel) = 'apple' THEN '0' "
        "WHEN lower(channel) = 'google' THEN '1' WHEN lower(channel) = 'facebook' THEN '2' "
        "WHEN lower(channel) = 'baidu' THEN '3' "
        "ELSE regexp_extract(url, '(&|^)channel_id=([^&]*)', 2) END AS channel_id FROM bid "
        "WHERE regexp_extract(url, '(&|^)channel_id=([^&]*)', 2) <> '' "
        "OR lower(channel) IN ('apple', 'google', 'facebook', 'baidu')",
        "channel of a bid, by a regular expression",
    ),
    "q22": NexmarkQuery(
        "SELECT auction, bidder, price, channel, split_part(url, '/', 4) AS dir1, "
        "split_part(url, '/', 5) AS dir2, split_part(url, '/', 6) AS dir3 FROM bid",
        "folders of a URL",
    ),
}
