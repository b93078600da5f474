"""Look up who changed what by hand."""

from __future__ import annotations

from typing import Final

from wherry.commands.audit import AuditEntry, ListAudit
from wherry.domain.options import check_id, check_integer, check_text
from wherry.server.caller import Caller, Right
from wherry.server.service.base import Base, require_right

# A longer one is nobody's name.
_LONGEST_BYTES: Final = 1000


class Auditing(Base):
    """The verb that reads the audit."""

    async def list_audit(
        self,
        caller: Caller,
        *,
        action: str | None = None,
        actor: str | None = None,
        limit: int = 100,
        after: int | None = None,
    ) -> list[AuditEntry]:
        """List what was changed by hand, newest first; *after* is the last row of a page before.

        A row may be about any queue, and names who came from where: it takes the right `read` on
        all queues.
        """
        require_right(caller, Right.READ)
        caller.require(Right.READ, None)
        check_integer(limit, option="limit", least=1, most=1001)
        if after is not None:
            check_id(after, option="after")
        for name, said in (("action", action), ("actor", actor)):
            if said is not None:
                check_text(said, option=name, limit_bytes=_LONGEST_BYTES, empty_allowed=True)
        look = ListAudit(limit=limit, after=after, action=action, actor=actor)
        return await self.app.acarry(look, call="list_audit")
