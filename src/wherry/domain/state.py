"""The states of a task, and every way from one to the next.

                     enqueue
                        │
                        ▼          lease
        ┌──────────► queued ──────────────────► leased ───┐
        │               │   ◄────────────────────┘ │      │ complete
        │        cancel │    fail, snooze, release,│      ▼
        │        expire │    lease ran out         │  succeeded
        │               ▼                          │
        │           canceled ◄─────────────────────┤ fail, snooze, release or lease ran out,
        │                                          │ after a cancel was asked for
        │           failed   ◄─────────────────────┤ fail: do not retry
        │           dead     ◄─────────────────────┘ fail or lease ran out, attempts exhausted;
        │               │                            snoozed too often
        └───────────────┘ requeue (also from succeeded)

SQL repeats this table in its `where` clauses. tests/pg/test_state_table.py fires every event at
every state on PostgreSQL and compares, so a transition added here or there alone fails a test.
"""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    """Where a task stands, as people see it."""

    QUEUED = "queued"
    LEASED = "leased"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    DEAD = "dead"
    CANCELED = "canceled"

    @property
    def is_final(self) -> bool:
        """Whether only a requeue leads on from here."""
        return self in FINAL


class Event(StrEnum):
    """What can happen to a task."""

    LEASE = "lease"
    COMPLETE = "complete"
    FAIL = "fail"
    FAIL_FOR_GOOD = "fail_for_good"
    FAIL_LAST = "fail_last"
    SNOOZE = "snooze"
    RELEASE = "release"
    CANCEL = "cancel"
    EXPIRE = "expire"
    LOSE = "lose"
    LOSE_LAST = "lose_last"
    REQUEUE = "requeue"


FINAL = frozenset({State.SUCCEEDED, State.FAILED, State.DEAD, State.CANCELED})

# What is missing here is refused and changes nothing. LAST: no attempt remains.
TRANSITIONS: dict[tuple[State, Event], State] = {
    (State.QUEUED, Event.LEASE): State.LEASED,
    (State.QUEUED, Event.CANCEL): State.CANCELED,
    (State.QUEUED, Event.EXPIRE): State.CANCELED,
    (State.LEASED, Event.COMPLETE): State.SUCCEEDED,
    (State.LEASED, Event.FAIL): State.QUEUED,
    (State.LEASED, Event.FAIL_FOR_GOOD): State.FAILED,
    (State.LEASED, Event.FAIL_LAST): State.DEAD,
    (State.LEASED, Event.SNOOZE): State.QUEUED,
    (State.LEASED, Event.RELEASE): State.QUEUED,
    # A request: the holder's complete still wins, anything else ends the task as canceled.
    (State.LEASED, Event.CANCEL): State.LEASED,
    (State.LEASED, Event.LOSE): State.QUEUED,
    (State.LEASED, Event.LOSE_LAST): State.DEAD,
    **{(state, Event.REQUEUE): State.QUEUED for state in FINAL},
}
