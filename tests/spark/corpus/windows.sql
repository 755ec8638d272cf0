Aggregates and joins over windows.

@ texts that look like calls: SELECT window.end AS e, concat('sum(v)=', sum(v)) AS a, concat('count(1)=', count(*)) AS b, concat('__p0=', max(v)) AS c FROM readings GROUP BY window(at, '10 seconds')
@ panes with texts that look like calls: SELECT window.end AS e, concat('sum(v)=', sum(v)) AS a, concat('count(1)=', count(*)) AS b, concat('__p0=', max(v)) AS c FROM readings GROUP BY window(at, '10 seconds', '5 seconds')
@ calls with texts in them: SELECT window.end AS e, max(concat('max(', s, ')')) AS a, count(IF(s = 'sum(v)=', 1, NULL)) AS b, max('max(v)') AS c, concat('max(max(v))', max('max(v)')) AS d FROM readings GROUP BY window(at, '10 seconds')
@ panes of calls with texts in them: SELECT window.end AS e, max(concat('max(', s, ')')) AS a, count(IF(s = 'sum(v)=', 1, NULL)) AS b, concat('max(max(v))', max('max(v)')) AS d FROM readings GROUP BY window(at, '10 seconds', '5 seconds')
@ quotes in an aggregate: SELECT window.end AS e, concat('it''s ', count(*), "\" n'", max(s)) AS a FROM readings WHERE s <> 'it''s; --' GROUP BY window(at, '10 seconds')
@ comments in an aggregate:
SELECT window.end AS e, /* sum(v) ' */ count(*) AS c -- GROUP BY k
FROM readings GROUP BY window(at, '10 seconds') /* HAVING count(*) > 100 */
@ a having on an alias: SELECT window.end AS e, k, sum(v) AS total FROM readings GROUP BY window(at, '10 seconds'), k HAVING total > 100 AND 'total' <> 'x'
@ a having on another call: SELECT window.end AS e, k, sum(v) AS s FROM readings GROUP BY window(at, '10 seconds'), k HAVING count(*) > 4 AND max(s) <> 'max(s)'
@ a having with texts: SELECT window.end AS e, k, max(s) AS most FROM readings GROUP BY window(at, '10 seconds'), k HAVING concat(most, 'most') <> 'most.most' OR most = 'k'
@ panes and having: SELECT window.end AS e, k, sum(v) AS s FROM readings GROUP BY window(at, '10 seconds', '5 seconds'), k HAVING sum(v) > 60 AND concat('s', s) <> 'sum(v)'
@ a having without an alias: SELECT window.end AS e, k FROM readings GROUP BY window(at, '10 seconds'), k HAVING min(v) < 5
@ a filter clause: SELECT window.end AS e, count(*) FILTER (WHERE s = 'a;b') AS a, sum(v) FILTER (WHERE k = 1 OR s = 'FILTER (WHERE') AS b, count(*) AS c FROM readings GROUP BY window(at, '10 seconds')
@ panes and a filter clause: SELECT window.end AS e, count(*) FILTER (WHERE s = 'a;b') AS a, sum(v) FILTER (WHERE k = 1) AS b, count(*) AS c FROM readings GROUP BY window(at, '10 seconds', '5 seconds')
@ the same windows under another condition: SELECT window.end AS e, k, count(*) AS c, sum(v) AS s FROM readings WHERE v > 20 GROUP BY window(at, '10 seconds'), k
@ the same windows under no condition: SELECT window.end AS e, k, count(*) AS c, sum(v) AS s FROM readings GROUP BY window(at, '10 seconds'), k
@ the same windows under a text: SELECT window.start AS b, k, max(s) AS m FROM readings WHERE s LIKE '%''%' OR s = "v > 20" GROUP BY k, window(at, '10 seconds')
@ the same windows under nothing: SELECT window.end AS e, k, count(*) AS c FROM readings WHERE v > 1000 GROUP BY window(at, '10 seconds'), k
@ distinct calls: SELECT window.end AS e, count(DISTINCT k) AS c, sum(DISTINCT v % 5) AS s, count(DISTINCT k, s) AS t FROM readings GROUP BY window(at, '10 seconds')
@ panes and distinct calls: SELECT window.end AS e, count(DISTINCT s) AS c, count(*) AS n FROM readings GROUP BY window(at, '10 seconds', '5 seconds')
@ by an expression: SELECT window.end AS e, v % 4 AS g, count(*) AS c FROM readings GROUP BY window(at, '10 seconds'), v % 4
@ by a text: SELECT window.end AS e, concat(s, ':', k) AS g, count(*) AS c FROM readings GROUP BY window(at, '10 seconds'), concat(s, ':', k)
@ by a case: SELECT window.end AS e, CASE WHEN v > 20 THEN 'high' ELSE 'low' END AS g, sum(v) AS s FROM readings GROUP BY window(at, '10 seconds'), CASE WHEN v > 20 THEN 'high' ELSE 'low' END
@ by an ordinal: SELECT window.end AS e, k, count(*) AS c FROM readings GROUP BY window(at, '10 seconds'), 2
@ by an alias: SELECT window(at, '10 seconds') AS w, k AS key, count(*) AS c FROM readings GROUP BY w, key
@ by all: SELECT window(at, '10 seconds') AS w, k, count(*) AS c FROM readings GROUP BY ALL
@ by a struct's field: SELECT window.end AS e, st.in.k AS g, max(st.n) AS m FROM readings GROUP BY window(at, '10 seconds'), st.in.k
@ by the key in another case: SELECT WINDOW.end AS e, K, sum(V) AS s FROM Readings GROUP BY Window(AT, '10 SECONDS'), k
@ by a qualified key: SELECT window.end AS e, r.k, sum(r.v) AS s, 'r.k' AS t FROM readings r WHERE r.v > 3 GROUP BY window(r.at, '10 seconds'), r.k
@ an alias equal to a column in an aggregate: SELECT window.end AS e, k.k, sum(k.v) AS s FROM readings k GROUP BY window(k.at, '10 seconds'), k.k
@ arithmetic on calls: SELECT window.end AS e, (max(v) - min(v)) * 2 + count(*) AS a, sum(v + k) / count(v) AS b, -sum(v) AS c FROM readings GROUP BY window(at, '10 seconds')
@ panes and arithmetic on calls: SELECT window.end AS e, (max(v) - min(v)) * 2 + count(*) AS a, sum(v + k) / count(v) AS b, sum(v) + sum(v) AS c FROM readings GROUP BY window(at, '10 seconds', '5 seconds')
@ a call in a call: SELECT window.end AS e, abs(sum(-v)) AS a, coalesce(max(x), -1) AS b, IF(count(*) > 3, 'count(*) > 3', string(count(*))) AS c FROM readings GROUP BY window(at, '10 seconds')
@ counts: SELECT window.end AS e, count(*) AS a, count(1) AS b, count(x) AS c, count(x, s) AS d, count_if(x > 1) AS f FROM readings GROUP BY window(at, '10 seconds')
@ panes and counts: SELECT window.end AS e, count(*) AS a, count(1) AS b, count(x) AS c, count(x, s) AS d, count_if(x > 1) AS f FROM readings GROUP BY window(at, '10 seconds', '5 seconds')
@ spreads: SELECT window.end AS e, percentile(v, 0.5) AS p, bool_or(x > 2) AS a, min(x) AS b FROM readings GROUP BY window(at, '10 seconds')
@ an aggregate of a subquery: SELECT w.start AS b, g, count(*) AS c FROM (SELECT window(at, '10 seconds') AS w, v % 2 AS g, s FROM readings WHERE s <> 'GROUP BY w') GROUP BY w, g
@ an aggregate of with: WITH c AS (SELECT at, v * 2 AS v FROM readings WHERE k > 0) SELECT window.end AS e, sum(v) AS s FROM c GROUP BY window(at, '10 seconds')
@ an aggregate of with that shadows: WITH readings AS (SELECT at, v * 2 AS v FROM readings WHERE k > 0) SELECT window.end AS e, sum(v) AS s FROM readings GROUP BY window(at, '10 seconds')
@ an aggregate of exploded rows: SELECT window.end AS e, count(x1) AS c FROM (SELECT at, explode_outer(arr) AS x1 FROM readings) GROUP BY window(at, '10 seconds')
@ an aggregate of a static join: SELECT window.end AS e, d.name, count(*) AS c FROM readings r JOIN districts d ON r.k = d.k GROUP BY window(r.at, '10 seconds'), d.name
@ an aggregate of a union: SELECT window.end AS e, src, sum(v) AS s FROM (SELECT at, v, 'readings' AS src FROM readings UNION ALL SELECT at, v, 'others' FROM others) GROUP BY window(at, '10 seconds'), src
@ a sliding aggregate of a union: SELECT window.end AS e, src, sum(v) AS s FROM (SELECT at, v, 'readings' AS src FROM readings UNION ALL SELECT at, v, 'others' FROM others) GROUP BY window(at, '10 seconds', '5 seconds'), src
@ sliding windows of a union as a column: SELECT w.end AS e, count(*) AS c FROM (SELECT window(at, '10 seconds', '4 seconds') AS w FROM (SELECT at FROM readings UNION ALL SELECT at FROM readings UNION ALL SELECT at FROM others)) GROUP BY w
@ an aggregate of an unpivoted union: SELECT window.end AS e, nm, sum(val) AS s FROM (SELECT * FROM (SELECT at, v, k FROM readings UNION ALL SELECT at, v, k FROM others) UNPIVOT (val FOR nm IN (v, k))) GROUP BY window(at, '10 seconds'), nm
@ grouping sets of a union [refused: GROUP BY without a window]: SELECT w, k, count(*) AS c FROM (SELECT k, window(at, '10 seconds', '4 seconds') AS w FROM (SELECT at, k FROM readings UNION ALL SELECT at, k FROM others)) GROUP BY ROLLUP (w, k)
@ an aggregate over an aggregate: SELECT e, max(s) AS m FROM (SELECT window.end AS e, k, sum(v) AS s FROM readings GROUP BY window(at, '10 seconds'), k) GROUP BY e
@ an aggregate with a subquery: SELECT window.end AS e, count(*) AS c FROM readings WHERE k IN (SELECT k FROM districts) GROUP BY window(at, '10 seconds')
@ a sliding window in other words: SELECT window.end AS e, sum(v) AS s FROM readings GROUP BY window(at, 'INTERVAL 10 seconds', '5000 milliseconds')
@ a window with an offset: SELECT window.start AS b, count(*) AS c FROM readings GROUP BY window(at, '10 seconds', '10 seconds', '3 seconds')
@ a sliding window with an offset: SELECT window.end AS e, sum(v) AS s FROM readings GROUP BY window(at, '10 seconds', '5 seconds', '2 seconds')
@ a window in a pipe: FROM readings |> WHERE v > 3 |> AGGREGATE count(*) AS c, sum(v) AS s GROUP BY window(at, '10 seconds')
@ distinct windows: SELECT DISTINCT window(at, '10 seconds') AS w, s FROM readings
@ the window itself: SELECT window, k, count(*) AS c FROM readings GROUP BY window(at, '10 seconds'), k
@ panes with the window itself: SELECT window, window.start AS b, count(*) AS c FROM readings GROUP BY window(at, '10 seconds', '5 seconds')
@ a join on windows: SELECT x.n, y.n AS m FROM (SELECT *, window(at, '10 seconds') AS w FROM readings) x JOIN (SELECT *, window(at, '10 seconds') AS w FROM others) y ON x.w = y.w AND x.v = y.v AND x.s <> 'ON x.w = y.w'
@ a band join: SELECT x.n, y.n AS m, 'x.n' AS t FROM readings x JOIN others y ON x.k = y.k AND y.at BETWEEN x.at - INTERVAL 1 SECOND AND x.at + INTERVAL '2' SECOND
@ a band join in other words: SELECT x.n, y.n AS m FROM readings x JOIN others y ON x.k = y.k AND y.at >= x.at AND y.at < x.at + INTERVAL '0 00:00:02' DAY TO SECOND WHERE x.s <> "y.at >= x.at"
@ a band join with itself: SELECT x.n, y.n AS m, 'readings x' AS t FROM readings x JOIN readings y ON x.k = y.k AND y.at BETWEEN x.at AND x.at + INTERVAL 1 SECOND /* FROM readings */
@ an except over windows: SELECT window(at, '10 seconds') AS w, v FROM readings EXCEPT SELECT window(at, '10 seconds') AS w, v FROM others
@ sums of intervals and decimals: SELECT window.end AS e, sum(v * 1.10) AS d, avg(CAST(v AS DECIMAL(10, 3))) AS a, sum(INTERVAL '1' SECOND * v) AS i FROM readings GROUP BY window(at, '10 seconds')
@ panes of sums of decimals: SELECT window.end AS e, sum(v * 1.10) AS d, avg(CAST(v AS DECIMAL(10, 3))) AS a FROM readings GROUP BY window(at, '10 seconds', '5 seconds')
@ panes by keys with blanks: SELECT window.end AS e, s, digits, count(*) AS `count(1)`, max(n) AS `max(n)` FROM readings WHERE s <> 'window' GROUP BY window(at, '10 seconds', '5 seconds'), s, digits
@ panes by the same keys elsewhere: SELECT digits, window.end AS e, sum(n) AS `sum(n)` FROM readings WHERE s LIKE '%''%' OR s = '__pane' GROUP BY s, digits, window(at, '10 seconds', '5 seconds')
@ lambdas in an aggregate: SELECT window.end AS e, max(aggregate(arr, 0, (v, e) -> v + coalesce(e, 0))) AS a, sum(size(filter(arr, v -> v > 3))) AS b FROM readings WHERE exists(arr, k -> k >= 0) GROUP BY window(at, '10 seconds')
@ panes with lambdas: SELECT window.end AS e, max(aggregate(arr, 0, (v, e) -> v + coalesce(e, 0))) AS a, sum(v) AS b FROM readings WHERE exists(arr, k -> k >= 0) GROUP BY window(at, '10 seconds', '5 seconds')
@ ranks in a window: SELECT w.end AS e, k, n, r FROM (SELECT w, k, n, rank() OVER (PARTITION BY w, k ORDER BY v DESC) AS r FROM (SELECT *, window(at, '10 seconds') AS w FROM readings)) WHERE r <= 2
@ dense ranks of counts in sliding windows: SELECT e, k, c, dense_rank() OVER (PARTITION BY e ORDER BY c DESC) AS r FROM (SELECT window.end AS e, k, count(*) AS c FROM readings GROUP BY window(at, '10 seconds', '5 seconds'), k)
@ exists on the window: SELECT x.n, x.w.end AS e FROM (SELECT *, window(at, '10 seconds') AS w FROM readings) x WHERE EXISTS (SELECT 1 FROM (SELECT *, window(at, '10 seconds') AS w FROM others) y WHERE y.w = x.w AND y.k = x.k)
@ not exists on the window: SELECT x.n, x.w.end AS e FROM (SELECT *, window(at, '10 seconds') AS w FROM readings) x WHERE NOT EXISTS (SELECT 1 FROM (SELECT *, window(at, '10 seconds') AS w FROM others) y WHERE y.w = x.w AND y.v = x.v)
@ in on the window: SELECT n, v FROM (SELECT *, window(at, '10 seconds') AS w FROM readings) WHERE (w, v) IN (SELECT w, max(v) FROM (SELECT *, window(at, '10 seconds') AS w FROM readings) GROUP BY w)
