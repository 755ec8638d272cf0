Shapes of queries: WITH, subqueries, generators, static tables, unions, pipes, hints.

@ with: WITH c AS (SELECT n, v FROM readings WHERE v > 5) SELECT n, v * 2 AS w FROM c WHERE n > 3
@ nested with: WITH a AS (WITH b AS (SELECT n, v FROM readings) SELECT n, v + 1 AS v FROM b WHERE n > 2) SELECT * FROM a WHERE v < 40
@ with that shadows the stream: WITH readings AS (SELECT n, v * 100 AS v FROM readings WHERE v > 5) SELECT n, v FROM readings WHERE v > 1000
@ with that shadows another stream: WITH others AS (SELECT n FROM readings WHERE v > 5) SELECT n FROM others
@ with used twice: WITH c AS (SELECT n, v FROM readings WHERE v > 5) SELECT n FROM c WHERE v < 20 UNION ALL SELECT n + 1000 FROM c WHERE v > 30
@ with over a static table: WITH d AS (SELECT k, max(name) AS name FROM districts GROUP BY k) SELECT r.n, d.name FROM readings r JOIN d ON r.k = d.k
@ with that shadows a static table: WITH districts AS (SELECT 1 AS k, 'mine' AS name) SELECT r.n, d.name FROM readings r JOIN districts d ON r.k = d.k
@ the same join with the table itself: SELECT r.n, d.name FROM readings r JOIN districts d ON r.k = d.k
@ with columns: WITH c(a, b) AS (SELECT n, v FROM readings) SELECT a + b AS s FROM c WHERE b > 3
@ with unused parts: WITH c AS (SELECT 1 AS x), d AS (SELECT n FROM readings WHERE v > 3) SELECT n FROM d
@ an inner with: SELECT q.n FROM (WITH c AS (SELECT n FROM readings WHERE k = 1) SELECT n FROM c) q
@ nested subqueries: SELECT a FROM (SELECT b AS a FROM (SELECT n AS b, v FROM (SELECT * FROM readings WHERE v > 3) WHERE v < 45) WHERE b > 2) WHERE a < 50
@ an error that the inner query avoids: SELECT n, 10 / x AS q FROM (SELECT n, x FROM readings WHERE x <> 0) WHERE 10 / x > 3
@ from first: FROM readings SELECT n, v WHERE v > 30
@ a table statement: TABLE others
@ parentheses: (SELECT n FROM (readings) WHERE (v) > (3))
@ explode: SELECT n, explode(arr) AS e FROM readings WHERE v > 5
@ explode outer: SELECT n, explode_outer(arr) AS e FROM readings WHERE v > 5
@ posexplode: SELECT n, posexplode(arr) AS (p, e) FROM readings
@ lateral view: SELECT n, e FROM readings LATERAL VIEW explode(arr) t AS e WHERE e > 3
@ lateral view outer: SELECT n, e FROM readings LATERAL VIEW OUTER explode(arr) t AS e
@ another over the same lateral view: SELECT n + 1 AS m, e * 2 AS f FROM readings LATERAL VIEW OUTER explode(arr) t AS e WHERE e IS NULL OR e > 3
@ lateral views in a row: SELECT n, e, f FROM readings LATERAL VIEW explode(arr) t AS e LATERAL VIEW explode(array(string(e), 'x')) u AS f
@ lateral view of a map: SELECT n, mk, mv FROM readings LATERAL VIEW explode(m) t AS mk, mv WHERE mk = 'SELECT' OR mv > 3
@ lateral view that shadows a column: SELECT t.n AS e, readings.n AS m FROM readings LATERAL VIEW explode(arr) t AS n
@ inline: SELECT n, inline(array(named_struct('a', 1, 'b', s), named_struct('a', 2, 'b', 'x'))) FROM readings
@ stack: SELECT n, stack(2, 'v', v, 'k', k) AS (what, value) FROM readings
@ json_tuple: SELECT n, json_tuple('{"a": 1, "b": "x;y"}', 'a', 'b') AS (a, b) FROM readings WHERE v > 9
@ unpivot: SELECT n, what, value FROM (SELECT n, k, v FROM readings) UNPIVOT (value FOR what IN (k AS `the k`, v AS `the v`))
@ a lateral subquery: SELECT n, y FROM readings r, LATERAL (SELECT r.n + d.k AS y FROM districts d WHERE d.k = r.k)
@ a lateral table function: SELECT n, e FROM readings, LATERAL explode(arr) AS t(e) WHERE e > 0
@ a static join: SELECT r.n, d.name FROM readings r JOIN districts d ON r.k = d.k WHERE d.name LIKE 'd%'
@ a static join using: SELECT n, k, name FROM readings JOIN districts USING (k) WHERE v > 4
@ a natural join: SELECT n, k, name FROM readings NATURAL JOIN districts WHERE v > 4
@ a static left join: SELECT r.n, d.name FROM readings r LEFT JOIN districts d ON r.k = d.k AND d.name > 'd  1'
@ a static semi join: SELECT n FROM readings r LEFT SEMI JOIN districts d ON r.k = d.k
@ a static anti join: SELECT n FROM readings r LEFT ANTI JOIN districts d ON r.k = d.k
@ a table named like a column: SELECT readings.n, v.v AS w FROM readings JOIN v ON readings.v = v.v
@ two tables named alike: SELECT r.n, a.name AS x, b.name AS y FROM readings r JOIN districts a ON r.k = a.k JOIN districts b ON r.k = b.k AND a.name < b.name
@ a static table with odd names: SELECT r.n, t.`a b`, t.`select` FROM readings r JOIN `odd table` t ON r.k = t.`a b`
@ another with odd names: SELECT r.n, concat(`odd table`.`select`, '`odd table`.x') AS c FROM readings r JOIN `odd table` ON r.k = `odd table`.`a b` WHERE `odd table`.`select` <> 'odd table.x'
@ a scalar subquery: SELECT n, (SELECT max(k) FROM districts) AS most FROM readings WHERE k < (SELECT max(k) FROM districts)
@ a correlated subquery: SELECT n, (SELECT max(name) FROM districts d WHERE d.k = r.k) AS name FROM readings r
@ in a subquery: SELECT n FROM readings WHERE k IN (SELECT k FROM districts WHERE name <> 'IN (SELECT')
@ not in a subquery: SELECT n FROM readings WHERE k NOT IN (SELECT k FROM districts WHERE k IS NOT NULL AND k > 1)
@ exists: SELECT n FROM readings r WHERE EXISTS (SELECT 1 FROM districts d WHERE d.k = r.k AND d.name > 'd  0')
@ not exists: SELECT n FROM readings r WHERE NOT EXISTS (SELECT * FROM districts d WHERE d.k = r.v)
@ union all: SELECT n, 'r' AS src FROM readings WHERE v > 9 UNION ALL SELECT n, 'o' FROM others WHERE v > 9
@ union all with itself: SELECT n FROM readings WHERE v > 9 UNION ALL SELECT n FROM readings WHERE v > 9
@ union all of other types: SELECT n, v FROM readings UNION ALL SELECT CAST(n AS BIGINT), v + 0.5 FROM others
@ a filtered union: SELECT * FROM (SELECT n, s FROM readings UNION ALL SELECT n, s FROM others) WHERE n % 2 = 0 AND s <> 'UNION ALL'
@ a pipe: FROM readings |> WHERE v > 5 |> SELECT n, v * 2 AS w |> WHERE w < 60
@ pipe operators: FROM readings |> EXTEND v + 1 AS w |> SET v = w * 2 |> DROP s, m, arr, st |> AS p |> SELECT p.n, p.v, p.w
@ a pipe in a text: SELECT n, '|> LIMIT 1' AS t FROM readings |> WHERE n > 5
@ a pipe with a static join: FROM readings |> AS r |> JOIN districts d ON r.k = d.k |> SELECT r.n, d.name
@ a hint: SELECT /*+ BROADCAST(d) */ r.n, d.name FROM readings r JOIN districts d ON r.k = d.k
@ a hint and a comment: SELECT /* +x */ /*+ SHUFFLE_HASH(d) */ r.n FROM readings r JOIN districts d ON r.k = d.k
@ values in a join: SELECT n, w FROM readings JOIN (VALUES (0, 'zero'), (1, 'it''s one')) AS t(k, w) USING (k)
@ a cross join: SELECT n, id FROM readings CROSS JOIN range(2) WHERE v > 40
@ case: SELECT n, CASE WHEN v > 30 THEN 'case' WHEN s = 'END' THEN 'when' ELSE NULL END AS c, CASE k WHEN 1 THEN 'one' WHEN 2 THEN 'two' END AS d FROM readings
@ a constant condition: SELECT n FROM readings WHERE true
@ a condition that is never true: SELECT n FROM readings WHERE false
@ a condition that is NULL: SELECT n FROM readings WHERE CAST(NULL AS BOOLEAN)
@ a null-safe comparison: SELECT n, x <=> NULL AS a FROM readings WHERE x <=> NULL OR x <=> 1
@ conditions with NULL: SELECT n, x > 1 AS a, x IN (1, NULL) AS b, x NOT IN (1, 2) AS c FROM readings WHERE NOT (x > 1 AND v > 10)
@ between and in: SELECT n FROM readings WHERE v BETWEEN 3 AND 30 AND k IN (0, 2) AND s IS DISTINCT FROM 'plain'
@ a join of a lateral view and a table: SELECT r.n, e, d.name FROM readings r JOIN districts d ON d.k = r.k LATERAL VIEW explode(array(1, d.k)) t AS e
@ session variables are no columns: SELECT n, `v` FROM readings WHERE (n, v) IN ((1, 7), (2, 14), (3, 99))
@ many columns computed: SELECT n, n + 1 AS a, n + 2 AS b, n + 3 AS c, n + 4 AS d, n + 5 AS e, n + 6 AS f, n + 7 AS g, upper(s) AS h, lower(s) AS i FROM readings
