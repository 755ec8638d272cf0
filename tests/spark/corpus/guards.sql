Errors that a condition avoids, and expressions that fail for rows another query keeps.

@ a guarded division: SELECT n FROM readings WHERE x <> 0 AND (10 / x > 3 OR 10 / x < 1)
@ a guarded division selected: SELECT n, 10 / x AS q FROM readings WHERE x <> 0
@ the same division for other rows: SELECT n, 10 / x AS q FROM readings WHERE x > 1
@ a guard in if: SELECT n, IF(x <> 0, 10 / x, 0) AS q FROM readings WHERE IF(x <> 0, 10 / x, 0) < 5
@ a guard in case: SELECT n, CASE WHEN x = 0 THEN -1 WHEN 10 / x > 3 THEN 10 / x END AS q FROM readings
@ try_divide: SELECT n, try_divide(10, x) AS q FROM readings WHERE try_divide(10, x) IS NULL OR n > 3
@ nullif: SELECT n, 10 / nullif(x, 0) AS q FROM readings WHERE coalesce(10 / nullif(x, 0), 1) > 0
@ a guarded cast: SELECT n, CAST(s AS INT) AS i FROM readings WHERE s RLIKE '^[0-9]+$'
@ a guarded cast of digits: SELECT n, CAST(digits AS INT) AS i FROM readings WHERE digits <> 'x' AND CAST(digits AS INT) > 1
@ try_cast: SELECT n, TRY_CAST(s AS INT) AS i, TRY_CAST(s AS DATE) AS d FROM readings
@ a guarded element: SELECT n, arr[1] AS e FROM readings WHERE size(arr) > 1 AND coalesce(arr[1], 0) < 100
@ an element or NULL: SELECT n, get(arr, 5) AS e, try_element_at(arr, 9) AS f, m['none'] AS g FROM readings
@ a guarded sum: SELECT n, i + 1 AS j FROM typed WHERE i < 2147483647
@ a guarded negation: SELECT n, -i AS j, abs(i) AS a FROM typed WHERE i > -2147483648
@ a guarded product: SELECT n, big * 2 AS j FROM typed WHERE abs(big / 4) < 1000
@ try arithmetic: SELECT n, try_add(i, 1) AS a, try_multiply(big, 2) AS b, try_subtract(tiny, 1Y) AS c FROM typed
@ a guard with or: SELECT n FROM readings WHERE x = 0 OR 10 / x > 3
@ a guard with not: SELECT n FROM readings WHERE NOT (x = 0 OR 10 / x <= 3)
@ a guard with coalesce: SELECT n FROM readings WHERE coalesce(x, 0) <> 0 AND 10 % x = 0
@ a guard in a subquery: SELECT n, q FROM (SELECT n, x, 10 / x AS q FROM readings WHERE x <> 0) WHERE q > 3
@ a guard in a static join: SELECT r.n, 10 / r.x AS q FROM readings r JOIN districts d ON r.k = d.k WHERE r.x <> 0
@ another in the same static join: SELECT r.n, d.name FROM readings r JOIN districts d ON r.k = d.k WHERE r.x IS NULL OR r.x <> 0 AND 10 / r.x < 9
@ a guard in a lambda: SELECT n, transform(arr, e -> IF(e <> 0, 100 DIV e, 0)) AS a FROM readings
@ a guarded lambda: SELECT n, transform(filter(arr, e -> e <> 0), e -> 100 DIV e) AS a FROM readings WHERE arr IS NOT NULL
@ a guarded date: SELECT n, CAST(concat('2026-01-', digits) AS DATE) AS d FROM readings WHERE digits <> '0'
@ assert_true behind a guard: SELECT n, CASE WHEN x = 0 THEN 'zero' ELSE string(10 / x) END AS t FROM readings WHERE x IS NOT NULL
@ raise_error behind a guard: SELECT n, IF(v < 0, raise_error('v < 0'), 'fine') AS t FROM readings
@ a guard in an aggregate: SELECT window.end AS e, sum(10 / x) AS s, count(*) AS c FROM readings WHERE x <> 0 GROUP BY window(at, '10 seconds')
@ another aggregate without the guard: SELECT window.end AS e, count(*) AS c, sum(v) AS s FROM readings GROUP BY window(at, '10 seconds')
@ an aggregate with another guard: SELECT window.end AS e, max(100 / (v - 7)) AS m FROM readings WHERE v > 7 GROUP BY window(at, '10 seconds')
@ a guard in filter: SELECT window.end AS e, sum(10 / x) FILTER (WHERE x <> 0) AS s, count(*) AS c FROM readings GROUP BY window(at, '10 seconds')
@ a guarded division of sums: SELECT window.end AS e, k, IF(sum(x) <> 0, sum(v) / sum(x), -1) AS s FROM readings GROUP BY window(at, '10 seconds'), k
@ having guards the division: SELECT window.end AS e, v, 100 / sum(x) AS s FROM readings GROUP BY window(at, '10 seconds'), v HAVING sum(x) > 0
@ panes with a guard: SELECT window.end AS e, sum(10 / x) AS s FROM readings WHERE x <> 0 GROUP BY window(at, '10 seconds', '5 seconds')
@ panes without the guard: SELECT window.end AS e, sum(x) AS s, avg(v) AS a FROM readings GROUP BY window(at, '10 seconds', '5 seconds')
@ panes with a cast behind a guard: SELECT window.end AS e, max(CAST(digits AS INT)) AS m FROM readings WHERE digits RLIKE '^[1-3]$' GROUP BY window(at, '10 seconds', '5 seconds')
@ panes with a cast of texts: SELECT window.end AS e, count(CAST(substr(s, 2) AS INT)) AS m FROM readings WHERE s RLIKE '^o[0-9]+$' GROUP BY window(at, '10 seconds', '5 seconds')
