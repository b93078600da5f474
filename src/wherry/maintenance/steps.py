"""The steps of maintenance, and what one pass of all of them did.

Each step is a bounded command that is safe from anywhere; nobody needs to lead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from wherry.commands.audit import PruneAudit
from wherry.commands.base import Command
from wherry.commands.fronts import Rescued, RescueTasks
from wherry.commands.maintenance import (
    Adopted,
    CatchUpIds,
    Discarded,
    DiscardTasks,
    DropPastDays,
    MakeDays,
    Promoted,
    PromoteTasks,
    Reaped,
    ReapLeases,
    ReapOrphans,
    Unparked,
    UnparkTasks,
)
from wherry.commands.schedules import PruneTicks
from wherry.commands.scheduling import Settled, SettleSchedules
from wherry.commands.tally import RollFlow
from wherry.commands.workers import ForgetWorkers


@dataclass(slots=True)
class Maintained:
    """How many tasks a pass promoted, took back from lost workers, ended, and so on.

    `scheduled`: how many schedules brought.
    """

    promoted: int = 0
    reaped: int = 0
    dead: int = 0
    canceled: int = 0
    expired: int = 0
    unparked: int = 0
    scheduled: int = 0

    def add(self, answer: Any) -> bool:
        """Count a step's answer; True if the step may have more to do."""
        match answer:
            case Promoted(promoted=n):
                self.promoted += n
                return n > 0
            case Unparked(unparked=n):
                self.unparked += n
                return n > 0
            case Reaped(_, dead, canceled, leases):
                self.reaped += len(answer)
                self.dead += len(dead)
                self.canceled += len(canceled)
                # Lease rows of which no task was left stood in front of the others.
                return len(answer) > 0 or leases > 0
            case Adopted(adopted=n) | Rescued(rescued=n):
                return n > 0
            case bool():
                return answer
            case Settled():
                self.scheduled += len(answer.fired)
                return answer.more
            case Discarded(ids):
                self.expired += len(ids)
                return len(ids) > 0
            case _:
                return False


# What no look around can tell: how often it comes, in seconds.
RARELY: tuple[tuple[Command[Any], float], ...] = (
    (MakeDays(), 3600.0),
    # Before the look around, which finds what it adopts.
    (ReapOrphans(), 60.0),
    (RescueTasks(), 30.0),
    (CatchUpIds(), 30.0),
    (DropPastDays(), 60.0),
    (ForgetWorkers(), 3600.0),
    (PruneAudit(), 3600.0),
    (PruneTicks(), 3600.0),
)

# What one process does for all; a look around tells which is due.
CHORES: dict[str, Command[Any]] = {"roll": RollFlow()}
# The one that takes so long that nothing else may wait for it.
RECOUNT = "recount"


def maintenance_pass() -> list[Command[Any]]:
    """Return each step once, but parking: that is for those who know which types are known."""
    return [
        *(command for command, _ in RARELY),
        ReapLeases(),
        UnparkTasks(),
        DiscardTasks(),
        SettleSchedules(),
        PromoteTasks(),
        CHORES["roll"],
    ]
