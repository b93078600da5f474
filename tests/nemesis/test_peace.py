"""What may break in the torture, and what may not though it looks alike."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.nemesis.cast import Ended
from tests.nemesis.evidence import Evidence
from tests.nemesis.history import Note
from tests.nemesis.promised_peace import nothing_breaks, the_server_refuses_nothing

WHO = "worker-4.2"
LEFT_AT = 1000.0


def evidence(*, dismissed: bool, fault: tuple[float, str], stored_at: float) -> Evidence:
    """A worker that logged that it left something behind, and what came before."""
    text = "the outcomes of these tasks could not be stored, they will run again: 7"
    notes = [
        Note("nemesis", LEFT_AT - fault[0], "fault", {"kind": fault[1]}),
        Note(WHO, LEFT_AT - stored_at, "reported", {}),
        Note(WHO, LEFT_AT, "logged", {"text": text}),
    ]
    ended = [Ended(WHO, 1, 30.0, killed=False, dismissed=dismissed)]
    return Evidence({}, [], [], notes, {}, [], {}, [], [], ended, Counter(), [], "")


def test_a_worker_that_was_cut_off_while_it_left_may_leave_outcomes_behind() -> None:
    cut_off = evidence(dismissed=True, fault=(8.0, "kill a door"), stored_at=8.5)

    assert list(nothing_breaks(cut_off)) == []


@pytest.mark.parametrize(
    ("dismissed", "fault", "stored_at", "complaint"),
    [
        (False, (8.0, "kill a door"), 8.5, "though nobody told it to"),
        (True, (8.0, "kill a producer"), 8.5, "nothing was in the way"),
        (True, (60.0, "kill a door"), 61.0, "nothing was in the way"),
        (True, (8.0, "kill a door"), 0.5, "had its way 0.5 s before it left"),
    ],
)
def test_a_worker_that_could_have_stored_its_outcomes_had_to(
    dismissed: bool, fault: tuple[float, str], stored_at: float, complaint: str
) -> None:
    left = evidence(dismissed=dismissed, fault=fault, stored_at=stored_at)

    [told] = nothing_breaks(left)

    assert complaint in told


TWICE = '[71] (wherry app) ERROR:  duplicate key value violates unique constraint "live_pkey"'


@pytest.mark.parametrize(
    ("answered", "complaints"),
    [
        ("[71] (wherry app) LOG:  could not send data to client: Broken pipe", 0),
        ("[72] (wherry app) LOG:  could not send data to client: Broken pipe", 1),
        ("", 1),
    ],
)
def test_what_is_sent_twice_is_refused_only_to_who_is_gone(answered: str, complaints: int) -> None:
    log = f"{TWICE}\n{answered}\n"
    seen = Evidence({}, [], [], [], {}, [], {}, [], [], [], Counter(), [], log)

    assert list(the_server_refuses_nothing(seen)) == complaints * [TWICE]
