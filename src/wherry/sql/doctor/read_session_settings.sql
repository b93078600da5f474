-- Tell what this role's sessions are given in this database.
-- takes:   nothing
-- returns: idle_session_seconds (0: no limit), idle_in_transaction_seconds (0: no limit), jit
-- locks:   none
-- index:   none
select max(s.setting) filter (where s.name = 'idle_session_timeout')::bigint / 1000.0::double precision
           as idle_session_seconds,
       max(s.setting) filter (where s.name = 'idle_in_transaction_session_timeout')::bigint / 1000.0::double precision
           as idle_in_transaction_seconds,
       max(s.setting) filter (where s.name = 'jit') as jit
  from pg_settings s
