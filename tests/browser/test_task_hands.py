"""What a person does to one task, on its page: each by its button, with the audit it leaves."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Site, Tabs


@dataclass(frozen=True)
class Hand:
    """A button, what is filled in and pressed then, and what is seen of it.

    `on` finds a task; `after` asks the database about it, and `left` is what it has to answer.
    """

    button: str
    on: str
    press: str
    said: str
    after: str
    left: tuple[object, ...]
    action: str | None
    fill: dict[str, str] = field(default_factory=dict)


READY = "select max(id) from wherry.live where queue = 'mail' and state = 'ready'"
LEASED = "select max(id) from wherry.live where queue = 'mail' and state = 'leased'"
DEAD = "select max(id) from wherry.finished where queue = 'payments' and state = 'dead'"
HANDS = {
    "cancel": Hand(
        "Cancel",
        READY,
        "Cancel task",
        "Task {id} is canceled.",
        "select state from wherry.finished where id = {id}",
        ("canceled",),
        "cancel_tasks",
    ),
    "cancel what runs": Hand(
        "Cancel",
        LEASED,
        "Cancel task",
        "The worker of task {id} is told to stop it.",
        "select state, cancel_requested_at is not null from wherry.live where id = {id}",
        ("leased", True),
        "cancel_tasks",
    ),
    "reprioritize": Hand(
        "Priority",
        READY,
        "Reprioritize 1 task",
        "1 task was given another priority.",
        "select priority from wherry.live where id = {id}",
        (7,),
        "reprioritize_tasks",
        {"Priority": "7"},
    ),
    "reschedule": Hand(
        "Reschedule",
        READY,
        "Reschedule 1 task",
        "1 task was rescheduled.",
        "select state, run_after > wherry.now() + '1h'::interval from wherry.live where id = {id}",
        ("delayed", True),
        "reschedule_tasks",
        {"When": "2h"},
    ),
    "copy": Hand(
        "Copy…",
        DEAD,
        "Store a copy",
        "was stored after task {id}.",
        "select count(*), min(state) from wherry.live where queue = 'copied'",
        (1, "ready"),
        None,
        {"Queue": "copied"},
    ),
    "requeue": Hand(
        "Requeue",
        DEAD,
        "Requeue task",
        "Task {id} is back in its queue.",
        "select state from wherry.live where id = {id}",
        ("ready",),
        "requeue_tasks",
    ),
    "purge": Hand(
        "Purge",
        DEAD,
        "Purge 1 task",
        "1 task was purged.",
        "select count(*) from wherry.finished where id = {id}",
        (0,),
        "purge_tasks",
    ),
}


@pytest.mark.parametrize("name", HANDS)
def test_a_task_is_changed_by_hand(tabs: Tabs, shop: Site, name: str) -> None:
    hand = HANDS[name]
    [[id]] = shop.rows(hand.on)
    tab = tabs.open(shop)
    tab.go(f"task?id={id}")

    tab.page.locator(".head-tools").get_by_role("link", name=hand.button, exact=True).click()
    dialog = tab.page.get_by_role("dialog")
    for label, text in hand.fill.items():
        dialog.get_by_label(label).fill(text)
    dialog.get_by_label("Reason").fill(f"by hand: {name}")
    dialog.get_by_role("button", name=hand.press, exact=True).click()

    expect(tab.page.get_by_role("status")).to_contain_text(hand.said.format(id=id))
    assert shop.rows(hand.after.format(id=id)) == [hand.left]
    noted = shop.rows(f"select action, count from wherry.audit where reason = 'by hand: {name}'")
    assert noted == ([(hand.action, 1)] if hand.action else noted)
    if name == "purge":
        # Its page, which is live, may have asked for it once more before it was left.
        tab.wrong = [text for text in tab.wrong if "404" not in text]
    tab.must_be_well()
