Names of columns, tables, aliases and fields.

@ a name with a blank: SELECT `a b`, n FROM odd WHERE `a b` > 0
@ a name with a dot: SELECT `a.b`, n FROM odd WHERE `a.b` > 5
@ a name with a backtick: SELECT `tick``s`, n FROM odd WHERE `tick``s` < 4
@ a name that is a keyword: SELECT `select`, `from` FROM odd WHERE `select` <> 's1' AND `from` = 1
@ a name in unicode: SELECT `größe`, `😀` FROM odd WHERE `größe` = 1
@ names in other cases: SELECT CAMELCASE, `CamelCase` + 1 AS Next, N FROM ODD WHERE camelCase > 1
@ a column called true: SELECT `true`, true AS t, n FROM odd WHERE `true` OR n < 3
@ a column called null: SELECT `null`, CAST(NULL AS STRING) AS nil, n FROM odd WHERE `null` IS NOT NULL
@ a column called current_date: SELECT `current_date`, n FROM odd WHERE `current_date` > 2
@ an unquoted column called current_date: SELECT current_date AS c, n FROM odd WHERE current_date > 2
@ a name that begins with a digit: SELECT `1st`, 1 AS `2nd` FROM odd WHERE `1st` = 3
@ a name with quotes: SELECT `'quoted'`, '`n`' AS t FROM odd WHERE `'quoted'` > 3
@ a name like a call: SELECT `count(1)`, `-- x` FROM odd WHERE `count(1)` > `-- x` - 2
@ a name that begins with a blank: SELECT ` lead` FROM odd WHERE ` lead` > 3
@ a result with odd names: SELECT n AS `a b`, n + 1 AS `c.d`, n + 2 AS `e``f`, n + 3 AS `WHERE`, n + 4 AS `'`, n + 5 AS `😀`, n + 6 AS `` FROM odd
@ a result named like internals: SELECT n AS `__mask0`, n + 1 AS `__e0`, n + 2 AS `__e1`, n + 3 AS `__c0_0`, n + 4 AS `__p0` FROM odd WHERE n > 2
@ an alias equal to a column: SELECT n.n, n.`a b`, n.st.n AS m FROM odd n WHERE n.n > 3
@ an alias equal to a struct: SELECT st.n AS a, st.st.n AS b, st.st.odd AS c FROM odd st
@ an alias equal to a struct's field: SELECT t.n AS a, t.t.n AS b FROM odd t WHERE t.n > 4
@ a column equal to the table: SELECT odd.odd AS a, odd AS b, st.odd AS c FROM odd WHERE odd.odd > 2
@ fields with odd names: SELECT st.`a b` AS a, st.`x.y`.n AS b, odd.st.`a b` AS c FROM odd WHERE st.`a b` > 210
@ a quoted alias: SELECT `r s`.n, `r s`.`a.b` FROM odd AS `r s` WHERE `r s`.`a b` = 1
@ an alias with a backtick: SELECT `r``s`.n FROM odd `r``s` WHERE `r``s`.`tick``s` = 1
@ an alias with a dot: SELECT `r.s`.n, `r.s`.`a.b` AS c FROM odd `r.s` WHERE `r.s`.n > 2
@ an alias in another case: SELECT R.n, r.CAMELCASE AS c FROM odd AS r WHERE R.N > 5
@ a qualified stream: SELECT odd.n, ODD.`a b` FROM odd WHERE `odd`.n > 7
@ columns aliased by the table: SELECT a, b FROM (SELECT n, `a b` FROM odd) AS q(a, b) WHERE a > 3
@ columns exchanged by the table: SELECT n, v FROM (SELECT v, n FROM readings) AS q(n, v) WHERE n > 3
@ a lateral alias: SELECT n + 1 AS o, o * 2 AS p, p + o AS q FROM readings WHERE n > 2
@ a lateral alias that shadows: SELECT v AS n, n + 1 AS m FROM readings
@ a lambda that shadows a column: SELECT n, transform(arr, n -> n + 1) AS a, filter(arr, v -> v > 2) AS b FROM readings WHERE k = 1
@ a lambda that shadows an alias: SELECT r.n, transform(r.arr, r -> r * 2) AS a FROM readings r
@ a lambda in a condition: SELECT n FROM readings WHERE exists(arr, x -> x > 10) AND NOT forall(arr, n -> n IS NULL)
@ nested lambdas: SELECT n, transform(arr, x -> aggregate(arr, 0, (acc, x) -> acc + coalesce(x, 0), acc -> acc + coalesce(x, 0))) AS a FROM readings
@ a lambda that uses a column: SELECT n, transform(arr, (e, i) -> e + i + v) AS a, map_filter(m, (k, v) -> k = 'k') AS b FROM readings
@ a struct's field named like a column: SELECT st.n AS n, st.s AS s, readings.n AS m FROM readings WHERE st.n > 10 AND n < 50
@ a struct's field named like the alias: SELECT r.st.r AS a, r.n FROM readings r WHERE r.st.r <> '3'
@ a field of a field: SELECT st.in.k AS a, r.st.in.k + 1 AS b FROM readings r WHERE r.st.in.k = 1
@ everything of a struct: SELECT n AS outer_n, st.* FROM readings WHERE st IS NOT NULL
@ everything of an alias: SELECT r.* FROM readings r WHERE r.v > 40
@ everything but one: SELECT * EXCEPT (s, m) FROM readings WHERE v < 10
@ everything and more: SELECT *, n AS `n again` FROM readings WHERE v = 7
@ internals as columns: SELECT * FROM internals
@ internals in conditions: SELECT n, `__e0` + `__e1` AS e FROM internals WHERE `__mask0` > 3 AND `__e0` > 0
@ internals selected: SELECT `__mask0`, `__e1`, `__p0`, `__in0`, `__c0_0` FROM internals WHERE `__in0` = 2
@ internals under their own names: SELECT n AS `__mask0`, `__mask0` AS n, `__e1` AS `__e0` FROM internals WHERE `__p0` > 1
@ a column called window: SELECT `window`, n FROM internals WHERE `window` = 1
@ an aggregate by a column called window: SELECT internals.`window` AS w, count(*) AS c, max(`__pane`) AS p FROM internals GROUP BY window(at, '10 seconds'), internals.`window`
@ an aggregate of internals: SELECT window.end AS e, sum(`__p0`) AS s, max(`__c0_0`) AS c, min(`__in0`) AS i FROM (SELECT at, `__p0`, `__c0_0`, `__in0` FROM internals) GROUP BY window(at, '10 seconds')
@ an aggregate of panes and internals: SELECT w.end AS e, `__e0`, sum(`__late`) AS s, max(`__pane`) AS p FROM (SELECT window(at, '10 seconds', '5 seconds') AS w, `__late`, `__pane`, `__e0` FROM internals) GROUP BY w, `__e0`
@ an aggregate with odd names: SELECT window.end AS `the end`, `a b`, sum(`a.b`) AS `sum(a.b)`, max(`tick``s`) AS `m``x`, count(*) AS `count(1)` FROM odd GROUP BY window(at, '10 seconds'), `a b`
@ another aggregate with odd names: SELECT window.end AS e, `a b`, max(`count(1)`) AS c, min(`'quoted'`) AS q, bool_or(`true`) AS t FROM odd WHERE `select` <> 's3' GROUP BY window(at, '10 seconds'), `a b`
@ sliding with odd names: SELECT window.end AS e, `größe`, sum(`a.b`) AS `a.b`, max(`null`) AS `null`, count(`-- x`) AS `--` FROM odd GROUP BY window(at, '10 seconds', '5 seconds'), `größe` HAVING sum(`a.b`) > 3
@ a stream with a blank: SELECT n FROM `fire-watch 1` WHERE k = 1
@ another over a stream with a blank: SELECT `fire-watch 1`.n + 1 AS m FROM `fire-watch 1`
@ a stream with a dot: SELECT n FROM `a.b` WHERE k = 1
@ another over a stream with a dot: SELECT `a.b`.n + 1 AS m FROM `a.b`
@ a stream with a backtick: SELECT n FROM `tick``s` WHERE k = 1
@ another over a stream with a backtick: SELECT `tick``s`.n + 1 AS m FROM `tick``s`
@ a stream that is a keyword: SELECT n FROM `select` WHERE k = 1
@ another over a keyword: SELECT s.n + 1 AS m, 'select.n' AS t FROM `select` s WHERE `s`.k = 0
@ a stream in unicode: SELECT n FROM `Größe #1 'x'` WHERE k = 1
@ another over unicode: SELECT `größe #1 'x'`.n + 1 AS m FROM `GRÖßE #1 'x'`
@ a stream called window: SELECT n, `window`.k FROM `window` WHERE k = 1
@ another over a stream called window: SELECT window.n + 1 AS m FROM window
@ an aggregate over a stream with a blank: SELECT window.end AS e, count(*) AS c FROM `fire-watch 1` GROUP BY window(at, '4 seconds')
@ panes over a stream with a dot: SELECT window.end AS e, sum(n) AS c FROM `a.b` GROUP BY window(at, '4 seconds', '2 seconds')
@ panes over a stream with a backtick: SELECT window.end AS e, sum(`tick``s`.n) AS c FROM `tick``s` GROUP BY window(at, '4 seconds', '2 seconds')
@ a window over a stream called window: SELECT w.end AS e, sum(n) AS c FROM (SELECT window(at, '4 seconds') AS w, n FROM `window`) GROUP BY w
@ an aggregate over unicode: SELECT window.end AS e, k, sum(n) AS `größe` FROM `Größe #1 'x'` GROUP BY window(at, '4 seconds'), k
