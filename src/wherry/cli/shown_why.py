"""How the reasons are shown for which a task is where it is."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from wherry.cli.output import Output
from wherry.cli.text import plain

if TYPE_CHECKING:
    from wherry.domain.why import Why


def show_why(out: Output, why: Why) -> None:
    """Answer with the reasons; nothing but the error is shown where there is no such task."""
    if out.as_json:
        fields = asdict(why)
        # What was asked stands first, what it is about behind it.
        order = ("id", "state", "queue", "at", "reasons")
        out.json({name: fields[name] for name in order})
        return
    if why.state is None:
        return
    out.line(f"task {why.id} is {why.state}", bold=True)
    for reason in why.reasons:
        out.line(f"  {reason.code}: {plain(reason.text)}")
        if reason.advice:
            out.line(f"      {plain(reason.advice)}")
