What is refused, in awkward dress.

@ a limit [refused: LIMIT]: SELECT n FROM readings /* LIMIT is fine here */ LIMIT 3
@ a moment in a text [refused: now]: SELECT n FROM readings WHERE at > timestamp /* x */ 'now'
@ a moment in double quotes [refused: today]: SELECT n FROM readings WHERE at > date"today"
@ a moment in a cast [refused: cast]: SELECT n FROM readings WHERE at > 'now'
@ two statements [refused: Syntax error]: SELECT n FROM readings; SELECT v FROM readings
@ a command [refused: DROP]: /* SELECT */ DROP VIEW readings
@ an unknown stream [refused: did you mean 'readings']: SELECT n FROM `readingz`
@ a quoted unknown column [refused: cannot be resolved]: SELECT `readings.n` FROM readings
@ a subquery over a stream [refused: subquery over stream]: SELECT n FROM readings WHERE v > (SELECT avg(v) FROM others)
@ no stream [refused: reads no stream]: SELECT 'readings' AS n, "FROM readings" AS t
@ a parameter [refused: ]: SELECT n FROM readings WHERE v > :most
@ a question mark [refused: ]: SELECT n FROM readings WHERE v > ?
@ a variable [refused: ]: SELECT n FROM readings WHERE v > ${most}
@ two columns of one name [refused: two columns]: SELECT n, v AS N FROM readings
@ an open text [refused: ]: SELECT n, 'open FROM readings
@ an open comment [refused: ]: SELECT n FROM readings /* open
@ an open name [refused: ]: SELECT `n FROM readings
@ a generated number [refused: rand]: SELECT n, 'no rand()' AS t, r AS x FROM (SELECT n, rand() AS r FROM readings)
