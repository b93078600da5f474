"""The check of locks: who waits for one, and who has it."""

from __future__ import annotations

from typing import Final

from wherry.commands.base import Rows
from wherry.doctor.check import Check, asked
from wherry.doctor.finding import Judgment, fine, problem, warning
from wherry.doctor.wording import statement
from wherry.domain.counting import count
from wherry.domain.durations import span

_MOST: Final = 50
# Statements of ours give up after 10 s, and come again.
_LONG_SECONDS, _TOO_LONG_SECONDS = 5.0, 60.0


def judge_blocked(rows: Rows) -> Judgment:
    """Whether somebody waits long for a lock."""
    if not rows or rows[0][2] < _LONG_SECONDS:
        return fine("nobody has waited long for one")
    pid, application, seconds, holder, holder_application, holder_state, holder_statement = rows[0]
    what = statement(holder_statement)
    doing = ", ".join(filter(None, (holder_application, holder_state)))
    who = f"session {holder}{f' ({doing})' if doing else ''}{f': {what}' if what else ''}"
    more = f"; {count(len(rows) - 1, 'other')} wait, too" if len(rows) > 1 else ""
    seen = (
        f"session {pid} ({application}) has waited for {span(seconds)} for what is held by"
        f" {who if holder else 'a prepared transaction'}{more}"
    )
    advice = (
        f"end it: select pg_terminate_backend({holder})"
        if holder
        else "settle it: select gid from pg_prepared_xacts, then commit or rollback prepared"
    )
    return (problem if seconds >= _TOO_LONG_SECONDS else warning)(seen, advice)


CHECK: Final = Check("locks", asked("list_blocked", judge_blocked, most=_MOST), of_tables=False)
