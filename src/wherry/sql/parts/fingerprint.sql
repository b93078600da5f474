-- What errors of one cause have in common: the type, and the beginning of the error without what differs from one task
-- to the next, which are addresses, ids, what stands in quotes, hexadecimal and plain numbers.
-- needs: a row of finished
-- gives: text of 12 hexadecimal digits
left(md5(finished.type || ' ' ||
     regexp_replace(regexp_replace(regexp_replace(regexp_replace(regexp_replace(
         left(coalesce(finished.last_error, finished.reason, finished.state), 300),
         '[\w.%+-]+@[\w.-]+', '@', 'g'),
         '[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}', '?', 'gi'),
         '''[^'']*''|"[^"]*"', '?', 'g'),
         '\m(0x[0-9a-f]+|[0-9a-f]*[0-9][0-9a-f]{6,}[0-9a-f]*)\M', '?', 'gi'),
         '[0-9]+([.,:][0-9]+)*', '?', 'g')
), 12)
