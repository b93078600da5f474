"""What a worker did, counted while it did it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from wherry.domain.lease import Reported
from wherry.telemetry.loggers import logger

log = logger("wherry.worker")


@dataclass(slots=True)
class Summary:
    """What a worker did.

    `abandoned`: tasks whose handlers were still running at the end; `unreported`: tasks whose
    outcomes could not be stored. Both come back when their leases run out.
    """

    answers: Counter[Reported] = field(default_factory=Counter)
    abandoned: list[int] = field(default_factory=list)
    unreported: list[int] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """0 if everything that was leased was settled, else 1."""
        return 1 if self.abandoned or self.unreported else 0

    def count(self, answers: Sequence[Reported]) -> None:
        """Count the answers to a report, of which there is one at least."""
        n = answers.count(answers[0])
        if n == len(answers):
            # Nearly always. Counting one by one would ask each for its hash, which is not cheap.
            self.answers[answers[0]] += n
        else:
            self.answers.update(answers)

    def leave(self, *, abandoned: Iterable[int], unreported: Iterable[int]) -> None:
        """Take note of the tasks that are left, and name them in the log."""
        self.abandoned, self.unreported = sorted(abandoned), sorted(unreported)
        if self.abandoned:
            log.warning(
                "still running and left behind, to run again when their leases run out: tasks %s",
                ", ".join(map(str, self.abandoned)),
            )
        if self.unreported:
            log.error(
                "the outcomes of these tasks could not be stored, they will run again: %s",
                ", ".join(map(str, self.unreported)),
            )
