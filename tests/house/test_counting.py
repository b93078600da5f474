"""Whatever changes how many tasks are in a state says so to the flow, in the same statement."""

from __future__ import annotations

import re
from pathlib import Path

import wherry
from wherry.transport.render import source

STATEMENTS = Path(wherry.__file__).parent / "sql"
# They lease: leased tasks are looked at one by one.
UNCOUNTED = {"leases/lease_tasks", "leases/lease_past_front", "leases/lease_for_pollers"}
CHANGES = re.compile(
    r"insert into wherry\.(?:live|finished)\b|delete from wherry\.(?:live|finished)\b"
    r"|update wherry\.live\s+set(?:(?!\bfrom\b).)*?\bstate ="
)


def changes_tasks(text: str) -> bool:
    """Whether a statement brings a task, takes one away, or changes its state."""
    return CHANGES.search(re.sub(r"\s+", " ", text)) is not None


def test_a_change_of_tasks_would_be_noticed() -> None:
    assert changes_tasks("update wherry.live\n set position = 1,\n  state = 'ready' from x")
    assert changes_tasks("delete from wherry.finished\n using old")
    assert not changes_tasks(
        "update wherry.live\n set position = 1\n from x where live.state = 'r'"
    )
    assert not changes_tasks("insert into wherry.lease (lease_id) select live.id from wherry.live")


def test_every_change_of_tasks_is_counted_with_it() -> None:
    names = {
        f"{path.parent.name}/{path.stem}"
        for path in STATEMENTS.rglob("*.sql")
        if path.parent.name != "parts"
    }
    changing = {name for name in names if changes_tasks(source(name))}

    uncounted = {name for name in changing if "insert into wherry.flow " not in source(name)}

    # And if none were found at all, the pattern would be wrong.
    assert "maintenance/promote_tasks" in changing
    assert uncounted == UNCOUNTED
