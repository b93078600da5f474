"""SEC-01: whatever stands in a name, a payload or an error is shown as it is, and nothing runs."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import parse_qsl, quote_plus

import psycopg
import pytest
from playwright.sync_api import expect

import wherry
from tests.browser import addresses
from tests.browser.conftest import Site, Tabs, site_of
from tests.security.process import ANYWHERE, started
from wherry.testing.postgres import TemplateServer

EVIL = (
    "<script>window.pwned=1</script>",
    '"><img src=x onerror=window.pwned=1>',
    "' onmouseover=window.pwned=1 autofocus onfocus=window.pwned=1 x='",
    "</script><script>window.pwned=1</script>",
    "</title></textarea></style><svg onload=window.pwned=1>",
    "javascript:window.pwned=1",
    "{{ 7 * 7 }}{% raw %}${7*7}",
    "&lt;b&gt; &amp; &#39; &quot;",
    "\u202egnp.exe\ufeff",
    "--><!--><![CDATA[",
    "%00%0d%0aSet-Cookie: a=b",
    "../../../etc/passwd?x#y",
)
POISON = (
    (
        "insert into wherry.finished (id, token, created_at, run_after, leased_at, finished_at,"
        " keep_until, attempts, max_attempts, priority, state, queue, type, worker, key, tags,"
        " headers, payload, result, reason, last_error)"
        " select 5000 + n, 1, now(), now(), now(), now(), now() + interval '30 days', 1, 1, 0,"
        " 'dead', evil, evil, evil, evil || '!', array[evil], json_build_object('h', evil),"
        " json_build_object(evil, evil), json_build_object('r', evil), evil, evil from evils"
    ),
    (
        "insert into wherry.attempt (task_id, queue, token, attempt, started_at, ended_at, outcome,"
        " worker, error_type, message, traceback)"
        " select 5000 + n, evil, 1, 1, now(), now(), 'failed', evil, evil, evil, evil from evils"
    ),
    (
        "insert into wherry.worker (instance, name, host, pid, queues, types, started_at, beat_at,"
        " expires_at, directive, directed_by, directive_reason, slots, version)"
        " select gen_random_uuid(), evil, evil, 1, array[evil], array[evil], now(), now(),"
        " now() + interval '1 hour', 'drain', evil, evil, 5, evil from evils"
    ),
    (
        "insert into wherry.audit (at, actor, peer, action, target, count, reason)"
        " select now(), evil, evil, evil, json_build_object(evil, evil), 1, evil from evils"
    ),
    (
        "insert into wherry.schedule (name, cron, tz, type, queue, priority, max_attempts, tags,"
        " headers, payload, missed, overlap, definition, by_hand, created_at, changed_at, next_at,"
        " due_at, trouble, paused_at, paused_by, pause_reason)"
        " select evil, evil, evil, evil, evil, 0, 1, array[evil], json_build_object('h', evil),"
        " json_build_object(evil, evil), 'last', 'allow', 'd', true, now(), now(),"
        " now() + interval '1 hour', case when n % 2 = 0 then now() + interval '1 hour' end, evil,"
        " case when n % 2 = 1 then now() end, evil, evil from evils"
    ),
    (
        "insert into wherry.tick (schedule, planned_at, by_hand, until_at, n, outcome, task_id, at,"
        " reason) select evil, now(), true, now(), 1, 'by_hand', 5000 + n, now(), evil from evils"
    ),
    "insert into wherry.pair (queue, type) select evil, evil from evils on conflict do nothing",
    (
        "insert into wherry.tally (step, at, pair, kind, bucket, n, seconds)"
        " select 'minute', date_trunc('minute', now()) - interval '1 minute', pair.id, 'enqueued',"
        " 0, 90, 0 from wherry.pair"
    ),
)


@pytest.fixture(scope="module")
def hostile(databases: TemplateServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A dashboard in whose every text stands something evil."""
    with databases.database() as dsn:
        # A thread of its own: in this one runs the loop of the browser's driver.
        with ThreadPoolExecutor(1) as thread:
            thread.submit(_enqueue, dsn).result()
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(
                "create temporary table evils as select evil, n"
                " from unnest(%s::text[]) with ordinality as e (evil, n)",
                [list(EVIL)],
            )
            for statement in POISON:
                connection.execute(statement.encode())
        with started(tmp_path_factory.mktemp("hostile"), *ANYWHERE, dsn=dsn) as served:
            yield site_of(served, dsn)


def _enqueue(dsn: str) -> None:
    with wherry.App(dsn) as app:
        for evil in EVIL:
            payload = {evil: [evil, {"x": evil}]}
            app.enqueue(evil, payload, queue=evil, tags=[evil], key=evil)
            app.pause_queue(evil, reason=evil)


@pytest.mark.parametrize("path", addresses.EVERY)
def test_nothing_of_it_runs_on_any_page(tabs: Tabs, hostile: Site, path: str) -> None:
    """SEC-01."""
    tab = tabs.open(hostile)

    for evil in EVIL[:3]:
        tab.go(_named(addresses.EVERY[path], evil))
        tab.page.locator("h1").wait_for()
        tab.page.mouse.move(400, 300)

        assert tab.page.evaluate("window.pwned") is None
        assert tab.page.locator("main script, main img, main style").count() == 0
    tab.must_be_well()


@pytest.mark.parametrize("path", ["queues", "workers"])
def test_it_is_shown_as_it_is(tabs: Tabs, hostile: Site, path: str) -> None:
    """SEC-01."""
    tab = tabs.open(hostile)

    tab.go(path)

    shown = " ".join(tab.page.locator("main").inner_text().split())
    assert [evil for evil in EVIL if " ".join(evil.split()) not in shown] == []
    tab.must_be_well()


def test_a_dialog_about_it_is_harmless_too(tabs: Tabs, hostile: Site) -> None:
    tab = tabs.open(hostile)
    tab.go("queues?q=%3Cscript%3Ewindow.pwned=1%3C/script")

    tab.page.locator("[data-row]").filter(has_not_text="</script><").locator(
        "a[data-dialog]"
    ).click()
    dialog = tab.page.get_by_role("dialog")
    expect(dialog).to_contain_text(EVIL[0])
    dialog.get_by_label("Reason").fill(EVIL[1])
    dialog.get_by_role("button", name="Resume queue").click()

    expect(tab.page.get_by_role("status")).to_contain_text(EVIL[0])
    assert tab.page.evaluate("window.pwned") is None
    reasons = hostile.rows("select reason from wherry.audit where action = 'resume_queue'")
    assert reasons == [(EVIL[1],)]
    tab.must_be_well()


def _named(address: str, evil: str) -> str:
    """Return an address of the shop's with something evil in place of each value but ids."""
    page, sign, query = address.partition("?")
    pairs = [
        f"{name}={value}" if value.startswith("{") else f"{name}={quote_plus(evil)}"
        for name, value in parse_qsl(query)
    ]
    return f"{page}{sign}{'&'.join(pairs)}"
