"""What a person does: by mouse, by keys, without a script; and what is live."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.browser.conftest import NARROW, Site, Tabs


def test_a_queue_is_paused_and_resumed_in_a_dialog(tabs: Tabs, shop: Site) -> None:
    tab = tabs.open(shop)
    tab.go("queue?name=images")

    tab.page.get_by_role("link", name="Pause", exact=True).click()
    dialog = tab.page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill("the disk is full")
    dialog.get_by_role("button", name="Pause queue").click()
    expect(tab.page.get_by_role("status")).to_contain_text("Queue images is paused.")
    expect(tab.page.locator("#queue-state")).to_contain_text("the disk is full")
    tab.page.get_by_role("link", name="Resume", exact=True).click()
    dialog.get_by_role("button", name="Resume queue").click()

    expect(tab.page.get_by_role("status")).to_contain_text("Queue images is resumed.")
    assert shop.rows(
        "select action, actor, reason from wherry.audit where target::text like '%\"images\"%'"
        " and action like '%queue'"
        " order by id"
    ) == [
        ("pause_queue", "anonymous", "the disk is full"),
        ("resume_queue", "anonymous", None),
    ]
    tab.must_be_well()


def test_the_limits_of_a_queue_are_set_in_a_dialog(tabs: Tabs, shop: Site) -> None:
    tab = tabs.open(shop)
    tab.go("queue?name=images")

    tab.page.get_by_role("link", name="Limits", exact=True).click()
    dialog = tab.page.get_by_role("dialog")
    dialog.get_by_label("At most at once").fill("3")
    dialog.get_by_role("button", name="Set limits").click()

    expect(tab.page.get_by_role("status")).to_contain_text("The limits of images are set.")
    expect(tab.page.locator("#queue-limits")).to_contain_text("at most 3 at once")
    shop.rows("delete from wherry.limited where queue = 'images' returning queue")
    tab.must_be_well()


def test_a_type_is_paused_and_resumed_by_keys(tabs: Tabs, shop: Site) -> None:
    tab = tabs.open(shop)
    tab.go("queue?name=images")
    page = tab.page

    page.get_by_role("link", name="Pause make_thumbnail").focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill("the disk is full")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_contain_text("make_thumbnail is paused in images.")
    expect(page.locator("#paused-types")).to_contain_text("The disk is full.")
    page.locator("#paused-types").get_by_role("link", name="Resume").focus()
    page.keyboard.press("Enter")
    dialog.get_by_role("button", name="Resume type").click()

    expect(page.get_by_role("status")).to_contain_text("make_thumbnail is resumed in images.")
    assert shop.rows(
        "select action, actor, reason from wherry.audit where target::text like '%make_thumbnail%'"
        " and action like '%type' order by id"
    ) == [
        ("pause_type", "anonymous", "the disk is full"),
        ("resume_type", "anonymous", None),
    ]
    tab.must_be_well()


def test_a_dead_task_is_run_again_with_a_mended_payload(tabs: Tabs, shop: Site) -> None:
    tab = tabs.open(shop)
    id = shop.dead_id
    tab.go(f"task?id={id}")

    tab.page.get_by_role("link", name="Edit and run again").click()
    dialog = tab.page.get_by_role("dialog")
    payload = dialog.get_by_label("Payload")
    expect(payload).to_be_focused()
    expect(payload).to_have_value(re.compile(r"^\{"))
    payload.fill('{\n  "n": 9007199254740993\n}')
    dialog.get_by_label("Queue").fill("mended")
    dialog.get_by_role("button", name="Run again").click()

    expect(tab.page.get_by_role("status")).to_contain_text(f"was stored after task {id}.")
    assert shop.rows("select payload::text from wherry.live where queue = 'mended'") == [
        ('{"n":9007199254740993}',)
    ]
    tab.must_be_well()


def test_a_dialog_is_left_without_doing_anything(tabs: Tabs, shop: Site) -> None:
    tab = tabs.open(shop)
    tab.go("workers")

    tab.page.get_by_role("link", name="Stop mail-2").click()
    expect(tab.page.get_by_role("dialog")).to_be_visible()
    tab.page.get_by_role("link", name="Cancel").click()

    expect(tab.page.get_by_role("dialog")).to_be_hidden()
    assert shop.rows("select directive from wherry.worker where name = 'mail-2'") == [("none",)]


def test_a_worker_is_told_without_a_script(tabs: Tabs, shop: Site) -> None:
    tab = tabs.open(shop)
    context = tab.page.context.browser.new_context(java_script_enabled=False)  # type: ignore[union-attr]
    page = context.new_page()
    page.goto(shop.root + "workers")

    page.get_by_role("link", name="Drain images-1").click()
    page.get_by_label("Reason").fill("a new driver")
    page.get_by_role("button", name="Drain worker").click()

    expect(page.get_by_role("status")).to_contain_text("Worker images-1 was told to lease no more")
    assert shop.rows(
        "select directive, directive_reason from wherry.worker where name = 'images-1'"
    ) == [("drain", "a new driver")]
    context.close()


def test_the_keys_lead_everywhere(tabs: Tabs, shop: Site) -> None:
    tab = tabs.open(shop)
    tab.go(".")
    page = tab.page

    page.keyboard.press("g")
    page.keyboard.press("q")
    expect(page.get_by_role("heading", level=1)).to_have_text("Queues")
    page.keyboard.press("/")
    page.keyboard.type("pay")
    page.keyboard.press("Enter")
    expect(page.locator("[data-row]")).to_have_count(1)
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("payments")
    page.keyboard.press("?")

    expect(page.get_by_role("dialog")).to_contain_text("Next and previous row")
    tab.must_be_well()


def test_what_changes_is_seen_without_a_reload(tabs: Tabs, shop: Site) -> None:
    tab = tabs.open(shop)
    tab.go("queues")
    expect(tab.page.locator("[data-live-text]")).to_have_text("Live")
    tab.page.evaluate("window.wasHere = true")
    tab.page.get_by_role("link", name="Pause exports").focus()

    shop.rows(
        "insert into wherry.paused (queue, paused_at, actor, reason)"
        " values ('audit-trail', wherry.now(), 'cli:ada', 'in another terminal') returning queue"
    )
    expect(tab.page.get_by_text("in another terminal")).to_be_visible()
    shop.rows(
        "insert into wherry.paused_type (type, queue, paused_at, actor, reason) values"
        " ('prune_sessions', '', wherry.now(), 'cli:ada', 'in a third one') returning queue"
    )

    expect(tab.page.get_by_text("in a third one")).to_be_visible()
    assert tab.page.evaluate("window.wasHere")
    # What had the focus still has it.
    assert "Pause exports" in tab.page.evaluate("document.activeElement.ariaLabel")
    shop.rows("delete from wherry.paused where queue = 'audit-trail' returning queue")
    shop.rows("delete from wherry.paused_type where type = 'prune_sessions' returning queue")
    tab.must_be_well()


def test_an_open_filter_stays_as_it_was_typed_while_tasks_come(tabs: Tabs, shop: Site) -> None:
    tab = tabs.open(shop)
    tab.go("tasks")
    expect(tab.page.locator("[data-live-text]")).to_have_text("Live")
    tab.page.get_by_text("Filter", exact=True).click()
    number, payload = (
        tab.page.get_by_label(name, exact=True) for name in ("Number", "Payload has")
    )
    number.fill("17")
    payload.press_sequentially("order=4")

    [[id]] = shop.rows("select id from wherry.enqueue('mail', 'send_mail', delay => '1 day')")
    expect(tab.page.locator(f"#task-{id}")).to_be_visible()

    expect(number).to_have_value("17")
    tab.page.keyboard.type("2")
    expect(payload).to_have_value("order=42")
    assert tab.page.locator("#more-filters").evaluate("(filter) => filter.open")
    tab.must_be_well()


def test_a_paused_view_stays_as_it_is(tabs: Tabs, shop: Site) -> None:
    tab = tabs.open(shop)
    tab.go("queues")

    other = tabs.open(shop)
    other.go("queues")

    tab.page.keyboard.press("p")
    expect(tab.page.locator("[data-live-text]")).to_have_text("Paused")
    shop.rows(
        "insert into wherry.paused (queue, paused_at, actor)"
        " values ('unseen', wherry.now(), 'cli:ada') returning queue"
    )
    expect(other.page.get_by_role("link", name="unseen", exact=True)).to_be_visible()

    expect(tab.page.get_by_role("link", name="unseen", exact=True)).to_be_hidden()
    tab.page.keyboard.press("p")
    expect(tab.page.get_by_role("link", name="unseen", exact=True)).to_be_visible()
    shop.rows("delete from wherry.paused where queue = 'unseen' returning queue")


def test_a_chart_says_its_numbers(tabs: Tabs, shop: Site) -> None:
    tab = tabs.open(shop)
    tab.go(".")

    tab.page.locator("#throughput .plot-area").hover()

    expect(tab.page.locator("#throughput .tip")).to_contain_text("Succeeded")
    tab.must_be_well()


def test_times_of_a_schedule_stay_those_of_its_own_clock(tabs: Tabs, shop: Site) -> None:
    tab = tabs.open(shop)
    tab.page.clock.install()
    tab.go("schedule?name=nightly-report")
    stamp = re.compile(r"^\w{3} \d\d \w{3} 04:30$")

    # The script says every second how long ago other moments are.
    tab.page.clock.run_for(5_000)

    for time in (".times time", "#history tbody th > time"):
        expect(tab.page.locator(time).first).to_have_text(stamp)
    tab.must_be_well()


def test_the_theme_that_is_chosen_stays(tabs: Tabs, shop: Site) -> None:
    tab = tabs.open(shop, size=NARROW)
    tab.go("workers")

    tab.page.get_by_role("button", name="Theme: Dark").click()
    tab.go("queues")

    ground = "getComputedStyle(document.body).backgroundColor"
    assert tab.page.evaluate(ground) == "rgb(13, 16, 21)"
    tab.must_be_well()


def test_what_is_wrong_is_seen_first(tabs: Tabs, shop: Site) -> None:
    tab = tabs.open(shop)
    tab.go(".")

    first = tab.page.locator(".trouble").first

    expect(first).to_contain_text("payments is behind")
    first.get_by_role("link").click()
    expect(tab.page.get_by_role("heading", level=1)).to_have_text("payments")
