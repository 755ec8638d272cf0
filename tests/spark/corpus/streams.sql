Streams of the corpus, each as a batch query over ids from 0. Every stream has an event time, at.

@ readings:
SELECT CAST(id AS INT) AS n, CAST(id % 3 AS INT) AS k, CAST(id * 7 % 50 AS INT) AS v,
  CAST(nullif(id % 5, 4) AS INT) AS x,
  element_at(array('plain', '', 'it''s', 'SELECT * FROM readings', 'a;b', '-- no comment', '/* nor this */',
    'back\\slash', '"quoted"', '`ticked`', '100%', 'a_b', 'sum(v)=', '__p0=', '😀 ünï\u0000end', 'two\nlines', NULL),
    CAST(id % 17 + 1 AS INT)) AS s,
  TIMESTAMP '2026-01-01 00:00:00' + make_dt_interval(0, 0, 0, id * 0.7) AS at,
  if(id % 7 = 6, NULL, transform(sequence(0, CAST(id % 3 AS INT)), i -> if(i = 1, NULL, CAST(i * id AS INT)))) AS arr,
  if(id % 4 = 3, NULL, map('k', CAST(id AS INT), 'SELECT', NULL)) AS m,
  if(id % 6 = 5, NULL, named_struct('n', CAST(id * 2 AS INT), 's', concat('in ', id), 'r', CAST(id AS STRING), 'in', named_struct('k', id % 2))) AS st,
  CAST(id % 4 AS STRING) AS digits
FROM range(60)

@ others:
SELECT CAST(id AS INT) AS n, CAST(id % 4 AS INT) AS k, CAST(id * 11 % 40 AS INT) AS v,
  concat('o', id) AS s, TIMESTAMP '2026-01-01 00:00:00' + make_dt_interval(0, 0, 0, id * 0.9) AS at
FROM range(40)

@ typed:
SELECT CAST(id AS INT) AS n,
  element_at(array(true, false, NULL), CAST(id % 3 + 1 AS INT)) AS bool,
  CAST(element_at(array(-128, 127, 0, NULL), CAST(id % 4 + 1 AS INT)) AS TINYINT) AS tiny,
  CAST(element_at(array(-32768, 32767, NULL), CAST(id % 3 + 1 AS INT)) AS SMALLINT) AS small,
  element_at(array(-2147483648, 2147483647, 0, NULL), CAST(id % 4 + 1 AS INT)) AS i,
  element_at(array(-9223372036854775808L, 9223372036854775807L, NULL), CAST(id % 3 + 1 AS INT)) AS big,
  element_at(array(float('NaN'), float('-0.0'), 0.1F, float('Infinity'), NULL), CAST(id % 5 + 1 AS INT)) AS f,
  element_at(array(double('NaN'), double('-0.0'), 0.0D, 0.1D, double('-Infinity'), NULL, 1.7976931348623157E308D),
    CAST(id % 7 + 1 AS INT)) AS d,
  CAST(element_at(array('99999999999999999999999999999999999999', '-1', NULL), CAST(id % 3 + 1 AS INT)) AS DECIMAL(38, 0)) AS wide,
  CAST(element_at(array('0.00000000000000000000000000000000000001', '-0.5', NULL), CAST(id % 3 + 1 AS INT)) AS DECIMAL(38, 38)) AS fine,
  CAST(id - 5.25 AS DECIMAL(10, 2)) AS money,
  element_at(array('', '😀', 'a\u0000b', 'x\ny\tz', 'ÄÖ ß', NULL), CAST(id % 6 + 1 AS INT)) AS s,
  element_at(array(X'', X'00FF', CAST('text' AS BINARY), NULL), CAST(id % 4 + 1 AS INT)) AS bin,
  element_at(array(DATE '0001-01-01', DATE '1582-10-15', DATE '2024-02-29', DATE '9999-12-31', NULL), CAST(id % 5 + 1 AS INT)) AS day,
  element_at(array(TIMESTAMP '1900-01-01 00:00:00', TIMESTAMP '2026-03-29 01:30:00.123456', TIMESTAMP '9999-12-31 23:59:59.999999', NULL), CAST(id % 4 + 1 AS INT)) AS ts,
  element_at(array(TIMESTAMP_NTZ '1900-01-01 00:00:00', TIMESTAMP_NTZ '2026-03-29 02:30:00.123456', NULL), CAST(id % 3 + 1 AS INT)) AS ntz,
  element_at(array(INTERVAL '1 02:03:04.000005' DAY TO SECOND, INTERVAL '-1 00:00:00' DAY TO SECOND, NULL), CAST(id % 3 + 1 AS INT)) AS span,
  element_at(array(array('a', NULL), array(), NULL), CAST(id % 3 + 1 AS INT)) AS texts,
  element_at(array(map('a', 1.5D, 'b', NULL), map(), NULL), CAST(id % 3 + 1 AS INT)) AS numbers,
  if(id % 4 = 3, NULL, named_struct('a', id, 'b', array(named_struct('c', if(id % 2 = 0, NULL, 'x'))))) AS deep,
  CAST(if(id % 2 = 0, 'Abc', 'aBC') AS STRING COLLATE UTF8_LCASE) AS ci,
  TIMESTAMP '2026-01-01 00:00:00' + make_dt_interval(0, 0, 0, id * 1.3) AS at,
  TIMESTAMP_NTZ '2026-01-01 00:00:00' + make_dt_interval(0, 0, 0, id * 1.3) AS at_ntz
FROM range(30)

@ odd:
SELECT CAST(id AS INT) AS n, CAST(id % 3 AS INT) AS `a b`, CAST(id * 3 AS INT) AS `a.b`, CAST(id % 7 AS INT) AS `tick``s`,
  concat('s', id) AS `select`, CAST(id % 2 AS INT) AS `größe`, CAST(id % 4 AS INT) AS CamelCase, id % 2 = 0 AS `true`,
  CAST(id AS STRING) AS `null`, CAST(id % 6 AS INT) AS `current_date`, CAST(id % 8 AS INT) AS `1st`, CAST(id AS INT) AS `'quoted'`,
  CAST(id + 1 AS INT) AS `count(1)`, CAST(id + 2 AS INT) AS `-- x`, CAST(id % 5 AS INT) AS `odd`,
  named_struct('odd', id, 'n', id + 100, 'a b', id + 200, 'x.y', named_struct('n', id)) AS st,
  named_struct('n', id + 300) AS t, CAST(id AS INT) AS `😀`, CAST(id % 3 AS INT) AS `from`, CAST(id AS INT) AS ` lead`,
  TIMESTAMP '2026-01-01 00:00:00' + make_dt_interval(0, 0, 0, id * 0.7) AS at
FROM range(40)

@ internals:
SELECT CAST(id AS INT) AS n, CAST(id AS INT) AS `__mask0`, CAST(id % 3 AS INT) AS `__e0`, CAST(id % 4 AS INT) AS `__e1`,
  CAST(id % 5 AS INT) AS `__p0`, CAST(id % 6 AS INT) AS `__in0`, CAST(id % 7 AS INT) AS `__c0_0`, CAST(id AS INT) AS `__pane`,
  CAST(id + 1 AS INT) AS `__late`, CAST(id % 3 AS INT) AS `window`, CAST(id % 2 AS INT) AS `__paned`, CAST(id % 2 AS INT) AS `__partials`,
  TIMESTAMP '2026-01-01 00:00:00' + make_dt_interval(0, 0, 0, id * 0.7) AS at
FROM range(40)

@ fire-watch 1:
SELECT CAST(id AS INT) AS n, id % 2 AS k, TIMESTAMP '2026-01-01 00:00:00' + make_dt_interval(0, 0, 0, id * 0.7) AS at FROM range(20)

@ a.b:
SELECT CAST(id AS INT) AS n, id % 2 AS k, TIMESTAMP '2026-01-01 00:00:00' + make_dt_interval(0, 0, 0, id * 0.7) AS at FROM range(20)

@ tick`s:
SELECT CAST(id AS INT) AS n, id % 2 AS k, TIMESTAMP '2026-01-01 00:00:00' + make_dt_interval(0, 0, 0, id * 0.7) AS at FROM range(20)

@ select:
SELECT CAST(id AS INT) AS n, id % 2 AS k, TIMESTAMP '2026-01-01 00:00:00' + make_dt_interval(0, 0, 0, id * 0.7) AS at FROM range(20)

@ Größe #1 'x':
SELECT CAST(id AS INT) AS n, id % 2 AS k, TIMESTAMP '2026-01-01 00:00:00' + make_dt_interval(0, 0, 0, id * 0.7) AS at FROM range(20)

@ window:
SELECT CAST(id AS INT) AS n, id % 2 AS k, TIMESTAMP '2026-01-01 00:00:00' + make_dt_interval(0, 0, 0, id * 0.7) AS at FROM range(20)
