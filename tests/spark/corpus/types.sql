Every type that Spark has.

@ every type: SELECT * FROM typed
@ plain types: SELECT n, bool, tiny, small, i, big, f, d FROM typed WHERE n > 3
@ not a number: SELECT n, d FROM typed WHERE d = double('NaN') OR f = float('NaN')
@ minus zero: SELECT n, d, 1D / nullif(d, 0D) AS r, -d AS m FROM typed WHERE d = 0D
@ infinities: SELECT n, d, f * 2 AS g FROM typed WHERE d < 0 OR f > 1e38D
@ wide decimals: SELECT n, wide, fine, wide - 1 AS w FROM typed WHERE wide > 0 OR fine < 0
@ decimals in arithmetic: SELECT n, money * 1.5 AS a, money / 3 AS b, CAST(money AS DECIMAL(38, 20)) AS c, round(money, 1) AS r FROM typed WHERE money > 0.5
@ decimal literals: SELECT n, 1.10 AS a, 1BD AS b, 1e-3 AS c, 99999999999999999999 AS d, .5 AS e FROM typed
@ number literals: SELECT n, 1Y AS a, 2S AS b, 3L AS c, 1.5F AS d, 1.5D AS e, 1e10 AS f, -2147483648 AS g, -9223372036854775808L AS h FROM typed
@ texts of all kinds: SELECT n, s, length(s) AS l, upper(s) AS u, hex(s) AS h FROM typed WHERE s IS NULL OR s <> 'x'
@ binary: SELECT n, bin, length(bin) AS l, concat(bin, X'01') AS c FROM typed WHERE bin <> X'00' OR bin IS NULL
@ dates: SELECT n, day, year(day) AS y, date_add(DATE '2024-02-28', n) AS a FROM typed WHERE day > DATE '1000-01-01'
@ timestamps: SELECT n, ts, TIMESTAMP '2026-03-29 02:30:00' AS lit, ts + INTERVAL '1' DAY AS next FROM typed WHERE ts < TIMESTAMP '3000-01-01'
@ timestamps without a zone: SELECT n, ntz, TIMESTAMP_NTZ '2026-03-29 02:30:00' AS lit, CAST(ntz AS TIMESTAMP) AS t FROM typed WHERE ntz > TIMESTAMP_NTZ '1950-01-01'
@ timestamps compared with others: SELECT n FROM typed WHERE ntz < ts
@ a month interval inside: SELECT n, CAST(make_ym_interval(n, 3) AS STRING) AS m, DATE '2026-01-31' + INTERVAL '1-1' YEAR TO MONTH * n AS d FROM typed WHERE make_ym_interval(0, n) > INTERVAL '3' MONTH
@ a month interval [refused: no sink can hold]: SELECT n, make_ym_interval(1, n) AS m FROM typed
@ a day interval: SELECT n, span, span * 2 AS twice, at + span AS later FROM typed WHERE span > INTERVAL '1' HOUR
@ day interval literals: SELECT n, INTERVAL '1 2:3:4' DAY TO SECOND AS a, INTERVAL 5 MINUTES AS b, INTERVAL '7' DAY AS c FROM typed
@ an interval added: SELECT n, at + INTERVAL 5 MINUTES AS a, at - INTERVAL '1' YEAR AS b FROM typed WHERE at > TIMESTAMP '2026-01-01' + INTERVAL 3 SECONDS
@ a calendar interval [refused: no sink can hold]: SELECT make_interval(1, 2, 3, 4) AS i FROM typed
@ arrays: SELECT n, texts, size(texts) AS z, array(1, NULL, n) AS a, slice(texts, 1, 1) AS e FROM typed WHERE size(texts) >= 0 OR texts IS NULL
@ maps: SELECT n, numbers, map('x', n) AS m, map_keys(numbers) AS k, numbers['a'] AS a FROM typed WHERE map_contains_key(numbers, 'b') OR numbers IS NULL
@ structs: SELECT n, deep, deep.b[0].c AS c, named_struct('x', n, 'y y', struct(s AS t)) AS x FROM typed WHERE deep.a > 2
@ a struct that may be NULL: SELECT n, IF(n > 3, named_struct('a', 1, 'b', array(named_struct('c', n))), NULL) AS st FROM typed
@ a struct of NULL in a map: SELECT n, map('k', IF(n > 3, named_struct('a', 1), NULL)) AS m FROM typed WHERE n > 1
@ a map of structs of arrays: SELECT n, map(n, named_struct('a', array(map('x', texts)))) AS m FROM typed
@ a variant inside: SELECT n, variant_get(parse_json(concat('{"a": ', n, '}')), '$.a', 'int') AS a, to_json(parse_json('{"b": [1, null, "x"]}')) AS j FROM typed WHERE variant_get(parse_json(concat('[', n, ']')), '$[0]', 'int') > 3
@ a variant [refused: no sink can hold]: SELECT n, parse_json('{"a": 1}') AS v FROM typed
@ a variant in a struct [refused: no sink can hold]: SELECT n, struct(IF(n > 3, parse_json('1'), NULL) AS v) AS s FROM typed
@ a collated text: SELECT n, ci, ci = 'ABC' AS same FROM typed WHERE ci = 'abc'
@ another collated text: SELECT n, 'x' COLLATE UNICODE_CI AS c FROM typed WHERE s COLLATE UTF8_LCASE = 'äö SS' OR ci LIKE 'A%'
@ a char: SELECT n, CAST(s AS CHAR(3)) AS c, CAST(n AS VARCHAR(5)) AS v FROM typed
@ a time [refused: TIME is not supported]: SELECT n, TIME '10:20:30.123456' AS t, CAST(concat('0', n % 10, ':00:00') AS TIME) AS u FROM typed
@ a condition on a time [refused: TIME is not supported]: SELECT n FROM typed WHERE CAST(concat('0', n % 10, ':00:00') AS TIME) > TIME '05:00:00'
@ null of every type: SELECT n, CAST(NULL AS BOOLEAN) AS a, CAST(NULL AS DECIMAL(38, 3)) AS b, CAST(NULL AS ARRAY<INT>) AS c, CAST(NULL AS MAP<STRING, INT>) AS d, CAST(NULL AS STRUCT<x: INT>) AS e, CAST(NULL AS TIMESTAMP_NTZ) AS f, CAST(NULL AS BINARY) AS g FROM typed
@ a null without a type [refused: has no type]: SELECT n, NULL AS x FROM typed
@ a null within a struct [refused: has no type]: SELECT n, struct(NULL AS x) AS x FROM typed
@ an empty array without a type [refused: has no type]: SELECT n, array() AS x FROM typed
@ casts to texts: SELECT n, CAST(d AS STRING) AS a, CAST(wide AS STRING) AS b, CAST(ts AS STRING) AS c, hex(bin) AS e, CAST(deep AS STRING) AS f, CAST(span AS STRING) AS g FROM typed
@ types in an aggregate: SELECT window.end AS e, sum(money) AS a, max(wide) AS b, min(fine) AS c, max(day) AS d, max(ts) AS f, min(s) AS g, max(bin) AS h, bool_and(bool) AS i, max(span) AS j, max(ntz) AS k FROM typed GROUP BY window(at, '10 seconds')
@ types by key in an aggregate: SELECT window.end AS e, tiny, s, day, wide, count(*) AS c FROM typed GROUP BY window(at, '20 seconds'), tiny, s, day, wide
@ nan by key: SELECT window.end AS e, d, count(*) AS c FROM typed GROUP BY window(at, '20 seconds'), d
@ nan and minus zero in an aggregate: SELECT window.end AS e, max(d) AS a, min(d) AS b, max(f) AS c, count(d) AS n FROM typed GROUP BY window(at, '10 seconds')
@ panes of types: SELECT window.end AS e, sum(money) AS a, avg(money) AS m, max(wide) AS b, min(fine) AS c, max(day) AS d, max(ts) AS f, min(s) AS g, max(bin) AS h, bool_or(bool) AS i, sum(tiny) AS t, avg(small) AS u FROM typed GROUP BY window(at, '10 seconds', '5 seconds')
@ panes by nan: SELECT window.end AS e, d, count(*) AS c, max(f) AS f FROM typed GROUP BY window(at, '10 seconds', '5 seconds'), d
@ panes by awkward keys: SELECT window.end AS e, s, bin, span, ntz, count(*) AS c, sum(span) AS t FROM typed GROUP BY window(at, '20 seconds', '10 seconds'), s, bin, span, ntz
@ panes of a collated key: SELECT window.end AS e, lower(ci) AS l, count(*) AS c FROM typed GROUP BY window(at, '20 seconds', '10 seconds'), lower(ci)
@ windows on a time without a zone: SELECT window(at_ntz, '10 seconds') AS w, n FROM typed
