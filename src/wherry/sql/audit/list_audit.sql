-- List the audit, newest first.
-- takes:   action text, actor text (null each: any), after bigint (an id; null: from the newest), limit_rows integer
-- returns: id, at, actor, peer, action, target, count, reason
-- locks:   none
-- index:   audit_pkey
select audit.id, audit.at, audit.actor, audit.peer, audit.action, audit.target::text as target, audit.count,
       audit.reason
  from wherry.audit
 where (:after::bigint is null or audit.id < :after::bigint)
   and (:action::text is null or audit.action = :action::text)
   and (:actor::text is null or audit.actor = :actor::text)
 order by audit.id desc
 limit :limit_rows::integer
