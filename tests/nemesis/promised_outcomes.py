"""What is promised of outcomes: accepted once, from the holder only, whole, and never undone.

Whoever was told something must find it in the audit, by its fence: an answer to one lease that took
effect on another shows as an answer without any step.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator

from tests.nemesis.evidence import Evidence
from tests.nemesis.lives import Fence, Life, Step
from tests.nemesis.tasks import ACCOUNTS
from wherry.domain.state import FINAL, TRANSITIONS, State

# From the entry to its commit, and from a commit to the answer: a crash may hold up both, and a
# transaction may be left open on purpose.
GRACE_SECONDS = 5.0
ENDED_AS = {"done": "succeeded", "dead": "dead", "failed": "failed", "canceled": "canceled"}
# What is done only to those of which somebody asked for it.
ASKED_FOR = {"requeued": "requeue", "purged": "purge"}
WAITING = ("ready", "delayed", "parked")
MOST_ATTEMPTS_OF_A_KILLER = 3


def told_is_so(evidence: Evidence) -> Iterator[str]:
    """W2: whatever was told of a report is in the audit, done by that very lease."""
    ends = evidence.ends()
    for report in evidence.reports():
        step = ends.get(report.fence)
        if report.answer in ENDED_AS:
            wanted = ENDED_AS[report.answer]
            if step is None or step.state != wanted or step.is_reap:
                yield f"{report} is not so: {step}"
        elif report.answer == "requeued":
            if step is None or step.state not in WAITING or step.is_reap:
                yield f"{report} is not so: {step}"
        elif report.answer == "already_done" and (step is None or step.is_reap):
            yield f"{report} is not so: {step}"


def done_once(evidence: Evidence) -> Iterator[str]:
    """C1: of all reports of one lease at most one is accepted."""
    accepted: Counter[Fence] = Counter()
    for report in evidence.reports():
        accepted[report.fence] += report.answer in (*ENDED_AS, "requeued")
    for fence, times in accepted.items():
        if times > 1:
            yield f"{fence} was settled {times} times"


def lost_is_so(evidence: Evidence) -> Iterator[str]:
    """C1: who completed is told so again, and never that the lease was lost."""
    ends = evidence.ends()
    last = {life.id: life.last for life in evidence.lives.values()}
    for report in evidence.reports():
        if report.verb != "complete" or report.answer != "lost":
            continue
        step = ends.get(report.fence)
        if step is None or step.state != "succeeded" or last[report.fence[0]] is not step:
            continue
        if step.at + GRACE_SECONDS < report.asked_at:
            yield f"{report} of a lease that had completed: {step}"


def only_known_transitions(evidence: Evidence) -> Iterator[str]:
    """C2, W2: a task moves as the state table says, and what has ended only by a requeue."""
    asked = {kind: _asked_ids(evidence, verb) for kind, verb in ASKED_FOR.items()}
    for life in evidence.lives.values():
        state: str | None = None
        for step in life.steps:
            if step.kind == "resent":
                continue
            if step.was != state or not _is_known(step):
                yield f"from {state}: {step}\n{life}"
            if life.id not in asked.get(step.kind, (life.id,)):
                yield f"nobody asked for {step}\n{life}"
            state = step.state


def _is_known(step: Step) -> bool:
    match step.kind:
        case "born":
            return step.state in ("ready", "delayed")
        case "purged":
            return step.was in FINAL
        case "moved" if step.was in WAITING and step.state in WAITING:
            # Promoted, parked or brought back.
            return True
        case "moved" | "ended" | "requeued":
            was, state = _as_people_see(step.was), _as_people_see(step.state)
            known = {(before, after) for (before, _), after in TRANSITIONS.items()}
            # A cancel that was asked for, or the handler's own.
            known.add((State.LEASED, State.CANCELED))
            is_lease = was is State.QUEUED and state is State.LEASED
            return (was, state) in known and (not is_lease or step.was == "ready")
        case _:
            return False


def _as_people_see(state: str | None) -> State:
    return State.QUEUED if state in WAITING else State(str(state))


def killers_die(evidence: Evidence) -> Iterator[str]:
    """C3: a task whose workers always die is dead after exactly as many attempts as it may have."""
    for life in evidence.lives.values():
        if life.type != "killer" or life.last.state != "dead":
            continue
        row = life.last.new
        assert row is not None
        if row["attempts"] != MOST_ATTEMPTS_OF_A_KILLER or not life.last.is_reap:
            yield f"dead otherwise than by {MOST_ATTEMPTS_OF_A_KILLER} lost workers:\n{life}"


def effects_exist_if_done(evidence: Evidence) -> Iterator[str]:
    """C4: what a transfer wrote is there if and only if its task was completed with it."""
    done = {step.fence for _, step in evidence.steps() if step.state == "succeeded" and step.fence}
    effects = Counter((id_, token, lease_id) for id_, token, lease_id, *_ in evidence.transfers)
    followed = {str(life.payload["nonce"]) for life in evidence.lives.values()}
    for fence, times in effects.items():
        if fence not in done:
            yield f"the effect of {fence} is there, but that lease did not complete"
        if times > 1:
            yield f"the effect of {fence} is there {times} times"
    for life, step in evidence.steps():
        if not life.type.startswith("transfer") or step.state != "succeeded":
            continue
        id_, token, lease_id = step.fence or (0, 0, "")
        if (id_, token, lease_id) not in effects:
            yield f"succeeded without its effect: {step}\n{life}"
        if f"after-{id_}-{token}-{lease_id}" not in followed:
            yield f"succeeded without the task that follows it: {step}\n{life}"
    for nonce in followed:
        if nonce.startswith("after-"):
            id_text, token_text, lease_id = nonce.removeprefix("after-").split("-", 2)
            if (int(id_text), int(token_text), lease_id) not in effects:
                yield f"the task {nonce} follows a transfer that is not there"


def results_are_kept(evidence: Evidence) -> Iterator[str]:
    """C4: what a handler returned is the result of its task."""
    for life, step in evidence.steps():
        if life.type != "answer" or step.state != "succeeded" or step.new is None:
            continue
        if step.new["result"] != life.payload["nonce"]:
            yield f"the result is {step.new['result']}: {step}\n{life}"


def money_is_kept(evidence: Evidence) -> Iterator[str]:
    """C4: every balance is the sum of the transfers that are there."""
    sums: dict[int, int] = defaultdict(int)
    for *_, source, target, amount in evidence.transfers:
        sums[source] -= amount
        sums[target] += amount
    for account in range(1, ACCOUNTS + 1):
        if evidence.balances[account] != sums[account]:
            yield f"account {account}: {evidence.balances[account]}, not {sums[account]}"


def ends_come_with_history(evidence: Evidence) -> Iterator[str]:
    """C6: what ended an attempt other than by success is in the history, in one transaction."""
    for life, step in evidence.steps():
        if step.was != "leased" or step.state not in ("dead", "failed") or step.new is None:
            continue
        if step.new["reason"] == "snoozed too often":
            continue
        if step.attempt is None or step.attempt["token"] != step.new["token"]:
            yield f"{step.state} without a row of history: {step}\n{life}"


def cancels_are_heeded(evidence: Evidence) -> Iterator[str]:
    """C7: after a cancel was asked for, the attempt completes or the task ends canceled."""
    for life, step in evidence.steps():
        asked_for = step.old is not None and step.old.get("cancel_requested_at") is not None
        if asked_for and step.leaves_lease and step.state not in ("succeeded", "canceled"):
            yield f"went on although its cancel was asked for: {step}\n{life}"
        # Only a holder can end what is leased: a cancel is a request.
        by_handler = step.attempt is not None and step.attempt["outcome"] == "canceled"
        if step.leaves_lease and step.state == "canceled" and not (asked_for or by_handler):
            yield f"canceled by nobody: {step}\n{life}"


def cancels_are_told(evidence: Evidence) -> Iterator[str]:
    """C7: each answer to a cancel was true at some moment between the question and the answer."""
    for call in evidence.of("cancel", "told"):
        for id_, answer in call.told["answers"]:
            life = evidence.lives.get(id_)
            if life is None:
                continue
            if not _was_so(life, answer, call.asked_at, call.ended_at):
                yield f"{answer} was told to {call.who} from {call.asked_at} of\n{life}"


def _was_so(life: Life, answer: str, asked_at: float, told_at: float) -> bool:
    after, before = asked_at - GRACE_SECONDS, told_at + GRACE_SECONDS
    match answer:
        case "canceled":
            return any(
                step.was in WAITING and step.state == "canceled" and after <= step.at <= before
                for step in life.steps
            )
        case "requested":
            return any(
                step.new is not None and step.new.get("cancel_requested_at") and step.at <= before
                for step in life.steps
            )
        case "final":
            return any(step.state in FINAL and step.at <= before for step in life.steps)
        case _:
            return life.last.kind == "purged"


def _asked_ids(evidence: Evidence, what: str) -> set[int]:
    return {id_ for call in evidence.of(what) for id_ in call.asked["ids"]}


PROMISES: dict[str, Callable[[Evidence], Iterator[str]]] = {
    "W2 what was told is so": told_is_so,
    "C1 settled once": done_once,
    "C1 completed is not lost": lost_is_so,
    "C2 only known transitions": only_known_transitions,
    "C3 killers die": killers_die,
    "C4 effects exist if done": effects_exist_if_done,
    "C4 money is kept": money_is_kept,
    "C4 results are kept": results_are_kept,
    "C6 ends come with history": ends_come_with_history,
    "C7 cancels are heeded": cancels_are_heeded,
    "C7 cancels are told": cancels_are_told,
}
