Texts in quotes, and comments.

@ a keyword in a text: SELECT n, 'SELECT * FROM others WHERE v > 3' AS t FROM readings WHERE s <> 'WHERE'
@ a text with a doubled quote: SELECT n, 'it''s n' AS t FROM readings WHERE s = 'it''s'
@ a text with an escaped quote: SELECT n, 'it\'s n, v' AS t FROM readings WHERE s = 'it\'s'
@ a text in double quotes: SELECT n, "n is 'n' and v" AS t FROM readings WHERE s = "it's"
@ a doubled double quote: SELECT n, "say ""n"" and 'v'" AS t FROM readings WHERE s = "\"quoted\""
@ backslashes before a quote: SELECT n, 'ends in \\' AS t, 'readings.n' AS u FROM readings WHERE s LIKE 'back%'
@ a raw text: SELECT n, r'raw \n readings.n' AS t, R"raw 'n'" AS u FROM readings WHERE v > 20
@ a semicolon in a text: SELECT n, 'a;b' AS t FROM readings WHERE s = 'a;b';
@ semicolons and blanks behind: SELECT n FROM readings WHERE s <> ';' ; ;
@ a comment marker in a text: SELECT n, '-- no comment' AS t, '/* nor this */' AS u FROM readings WHERE s = '-- no comment' OR s = '/* nor this */'
@ a line comment behind:
SELECT n FROM readings WHERE v > 10 -- and k = 1
@ a line comment inside:
SELECT n, -- a comment with ' in it
  v + 1 AS w FROM readings -- WHERE n > 3
WHERE v > 10
@ a block comment inside: SELECT n /* , v ' " ` */ , k FROM /* others */ readings /* x */ WHERE /* k = 1 */ v > 10
@ a nested block comment: SELECT n FROM readings /* outer /* inner */ still */ WHERE v > 10
@ a comment within a static join:
SELECT r.n, d.name FROM readings r -- the stream's rows
JOIN /* a ' quote */ districts d ON r.k = d.k WHERE r.v > 5
@ another comment within the same join:
SELECT r.n, upper(d.name) AS u FROM readings r -- other words
JOIN districts d ON r.k = d.k WHERE r.v > 7
@ a comment behind the last semicolon:
SELECT n FROM readings WHERE v > 11; -- done
@ a function call in a text: SELECT n, 'count(1)' AS a, 'sum(v)' AS b, 'rand()' AS c, 'current_timestamp()' AS d FROM readings
@ now in a text: SELECT n, 'now' AS a, "TIMESTAMP 'now'" AS b, 'date \'today\'' AS c FROM readings WHERE s <> 'timestamp ''now'''
@ now in a comment: SELECT n FROM readings /* since TIMESTAMP 'now' */ WHERE v > 12
@ now as a name: SELECT n AS now, v AS today FROM readings WHERE n > 3
@ a qualified column in a text: SELECT r.n, 'r.n and `r`.`v`' AS t FROM readings r WHERE r.s <> 'r.s'
@ quotes of all kinds: SELECT n, concat('\'', "'", '"', "\"", '`', '\\', '''', """") AS t FROM readings WHERE k = 1
@ texts next to each other: SELECT n, 'a' 'b' "c" AS t FROM readings WHERE k = 2
@ unicode escapes: SELECT n, '\u0041\x42\103\0' AS t, '\U0001F600' AS u FROM readings WHERE k = 0
@ a text with blanks: SELECT n, '  two  blanks  ' AS t, 'tab	tab' AS u FROM readings WHERE concat(s, '  ') <> 'x  '
@ a text over two lines:
SELECT n, 'first
  second -- no comment
third' AS t FROM readings WHERE s = 'two
lines'
@ a static join with blanks in a text: SELECT r.n, d.name FROM readings r JOIN districts d ON r.k = d.k AND d.name <> 'd  1'
@ the same join with one blank less: SELECT r.n, d.name FROM readings r JOIN districts d ON r.k = d.k AND d.name <> 'd 1'
@ a static join with double quotes: SELECT r.n, d.name FROM readings r JOIN districts d ON r.k = d.k AND d.name <> "d  1"
@ a static join with escapes: SELECT r.n, d.name FROM readings r JOIN districts d ON r.k = d.k AND d.name <> "d\"  \" 1" AND d.name <> 'd\'  1'
@ like with an escape: SELECT n FROM readings WHERE s LIKE '100!%' ESCAPE '!' OR s LIKE '%a\_b%'
@ like any: SELECT n, s FROM readings WHERE s LIKE ANY ('a%', '%''%', '%;%') AND s NOT LIKE ALL ('x', 'y')
@ a regular expression: SELECT n, regexp_replace(s, '(\\w+)\\s+(\\w+)', '$2 $1') AS t FROM readings WHERE s RLIKE '^[\'"`]'
@ a raw regular expression: SELECT n, regexp_extract(s, r'(\w+)\W', 1) AS t FROM readings WHERE s RLIKE r'\\|\*'
@ emoji and nul: SELECT n, concat(s, '😀', '\0') AS t, length(s) AS l FROM readings WHERE contains(s, '😀')
@ a text that equals a column: SELECT 'n' AS v, n AS s, 'v' AS n FROM readings WHERE 's' <> s
@ a hex text: SELECT n, X'53454C454354' AS b, cast(X'27' AS STRING) AS q FROM readings
@ a text that ends a block comment: SELECT n, '*/' AS a /* ' */ FROM readings WHERE s <> '*/' /* x */
@ a very long text: SELECT n, 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa' AS t FROM readings
@ fields of dates named in texts: SELECT n, date_format(at, 'yyyy-MM-dd''T''HH:mm:ss') AS t, extract(SECOND FROM at) AS sec FROM readings
@ json paths: SELECT n, get_json_object('{"a''b": {"c.d": 1}}', '$.a''b') AS j, from_json('{"n": 3}', 'n INT').n AS v FROM readings
