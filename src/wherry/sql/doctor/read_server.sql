-- Tell of the server what has to be right before anything is stored there.
-- takes:   nothing
-- returns: version_num, version, fsync, full_page_writes, synchronous_commit, encoding, is_standby, is_read_only,
--          is_allowed (somebody said there that the server may be unsafe), pid
-- locks:   none
-- index:   none
select current_setting('server_version_num')::integer as version_num,
       split_part(current_setting('server_version'), ' ', 1) as version,
       current_setting('fsync') as fsync,
       current_setting('full_page_writes') as full_page_writes,
       current_setting('synchronous_commit') as synchronous_commit,
       pg_encoding_to_char(pg_database.encoding)::text as encoding,
       pg_is_in_recovery() as is_standby,
       current_setting('default_transaction_read_only') = 'on' as is_read_only,
       lower(coalesce(current_setting('wherry.allow_unsafe_database', true), '')) in ('on', 'true', 'yes', '1')
           as is_allowed,
       pg_backend_pid() as pid
  from pg_database
 where pg_database.datname = current_database()
