-- The end of what the part `shown` begins.
-- needs: `shown`, and the select of what is found
-- gives: those whose payloads and results, with those before them, are no more than limit_bytes and one task
         ) as found
       window turn as (order by found.id desc rows between unbounded preceding and 1 preceding)
  ) as shown
 where shown.bytes_before < :limit_bytes::bigint
 order by shown.id desc
