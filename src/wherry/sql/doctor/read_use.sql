-- Count the sessions there are, and those there may be: on the server, in this database, of this role.
-- takes:   nothing
-- returns: used, allowed, in_database, allowed_in_database (-1: no limit), of_role, allowed_of_role (-1: no limit)
-- locks:   none
-- index:   none
select count(*) filter (where seen.datid is not null) as used,
       current_setting('max_connections')::integer - current_setting('superuser_reserved_connections')::integer
           - coalesce(current_setting('reserved_connections', true)::integer, 0) as allowed,
       count(*) filter (where seen.datname = current_database()) as in_database,
       (select d.datconnlimit from pg_database d where d.datname = current_database()) as allowed_in_database,
       count(*) filter (where seen.datid is not null and seen.usename = current_user) as of_role,
       (select r.rolconnlimit from pg_roles r where r.rolname = current_user) as allowed_of_role
  from pg_stat_activity seen
 where seen.usesysid is not null
