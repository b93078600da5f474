"""The dashboard's edge: who is let in, what a form needs, and what every answer says."""

from __future__ import annotations

import re

import httpx
import pytest

import wherry
from tests.facts import await_for
from tests.server.dashboard.conftest import Browse, send
from wherry.domain.token import Right
from wherry.server.auth import Authenticator, Polls
from wherry.server.dashboard.pages import ACTIONS, PAGES
from wherry.server.dashboard.render import environment
from wherry.server.dashboard.session import FORM_COOKIE, TOKEN_COOKIE
from wherry.server.http import HttpDoor, HttpSettings
from wherry.server.service import Service

PATHS = [page.path for page in PAGES]
WAYS = [(action.path, action.right) for action in ACTIONS]


async def test_the_front_door_leads_to_the_dashboard(browse: Browse) -> None:
    client = await browse()
    root = str(client.base_url).removesuffix("dashboard/")

    found = await client.get(root, follow_redirects=True)

    assert found.status_code == 200
    assert str(found.url) == f"{root}dashboard/"


async def test_no_visitor_waits_for_templates_to_be_compiled(browse: Browse) -> None:
    environment.cache_clear()
    made = environment()

    await browse()

    await await_for(lambda: len(made.cache or ()) == len(made.list_templates()))


@pytest.mark.parametrize("prefix", ["/admin/queue", "/admin/queue/"])
async def test_the_front_door_knows_the_prefix_that_a_proxy_says(
    browse: Browse, prefix: str
) -> None:
    client = await browse()
    root = str(client.base_url).removesuffix("dashboard/")

    found = await client.get(root, headers={"x-forwarded-prefix": prefix})

    assert found.headers["location"] == "/admin/queue/dashboard/"


@pytest.mark.parametrize("prefix", ["//evil.example", "https://evil.example", "/a/../b?", "\\x"])
async def test_the_front_door_leads_to_no_other_site(browse: Browse, prefix: str) -> None:
    client = await browse()
    root = str(client.base_url).removesuffix("dashboard/")

    found = await client.get(root, headers={"x-forwarded-prefix": prefix})

    assert found.headers["location"] == "dashboard/"


@pytest.mark.parametrize("path", PATHS)
async def test_an_empty_database_has_every_page(browse: Browse, path: str) -> None:
    client = await browse()

    found = await client.get(path, params={"name": "mail", "id": "1"})

    assert found.status_code in (200, 404)
    assert "<h1>" in found.text


@pytest.mark.parametrize("path", ["", "queues", "no-such-page", "login"])
async def test_every_answer_forbids_what_is_not_ours(browse: Browse, path: str) -> None:
    client = await browse("read")

    found = await client.get(path)

    policy = found.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert found.headers["referrer-policy"] == "same-origin"
    assert found.headers["x-content-type-options"] == "nosniff"
    assert found.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("path", PATHS)
async def test_no_page_has_a_style_or_a_script_of_its_own(browse: Browse, path: str) -> None:
    client = await browse()

    text = (await client.get(path)).text

    assert not re.search(r"\sstyle=|<style|\son\w+=|javascript:", text)
    assert re.findall(r"<script[^>]*>", text) in ([], re.findall(r"<script src=[^>]*>", text))


async def test_an_asset_stays_for_ever_under_the_name_of_what_is_in_it(browse: Browse) -> None:
    client = await browse()
    page = (await client.get("queues")).text

    names = re.findall(r'(?:src|href)="(static/[^"]+)"', page)

    assert len(names) == 3
    for name in names:
        found = await client.get(name)
        assert found.status_code == 200
        assert "immutable" in found.headers["cache-control"]


@pytest.mark.parametrize("path", PATHS)
async def test_who_shows_no_token_is_asked_for_one(browse: Browse, path: str) -> None:
    client = await browse("read")
    client.cookies.delete(TOKEN_COOKIE)

    found = await client.get(path)

    assert found.status_code == 303
    assert found.headers["location"].startswith("login")
    assert (await client.get(path, headers={"x-wherry-parts": "1"})).status_code == 401


async def test_a_link_from_elsewhere_is_looked_at_twice_to_have_the_cookie(browse: Browse) -> None:
    client = await browse("read")
    client.cookies.delete(TOKEN_COOKIE)

    found = await client.get("queues", headers={"sec-fetch-site": "cross-site"})

    assert found.status_code == 200
    assert 'http-equiv="refresh"' in found.text


async def test_the_cookie_is_for_the_dashboard_and_no_script(browse: Browse) -> None:
    client = await browse("read")
    token = client.cookies[TOKEN_COOKIE]
    client.cookies.delete(TOKEN_COOKIE)

    found = await send(client, "login?to=queues", token=token)

    [cookie] = [each for each in found.headers.get_list("set-cookie") if TOKEN_COOKIE in each]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert "Path" not in cookie
    assert "Domain" not in cookie
    assert "Secure" not in cookie


async def test_the_cookie_is_secure_behind_tls(browse: Browse) -> None:
    client = await browse("read")
    client.cookies.delete(FORM_COOKIE)
    client.cookies.delete(TOKEN_COOKIE)

    found = await client.get("login", headers={"x-forwarded-proto": "https"})

    assert "; Secure" in found.headers["set-cookie"]


@pytest.mark.parametrize("token", ["", "wherry_aaaaaaaaaaaa_" + "a" * 52, "\r\nx: y", "é" * 20])
async def test_a_wrong_token_is_told_nothing(browse: Browse, token: str) -> None:
    client = await browse("read")
    client.cookies.delete(TOKEN_COOKIE)

    found = await send(client, "login", token=token)

    assert found.status_code == 403
    assert TOKEN_COOKIE not in found.headers.get("set-cookie", "")
    assert "not valid" in found.text


@pytest.mark.parametrize(
    "to", ["https://evil.example", "//evil.example", "/queues", "../x", "nope"]
)
async def test_a_login_leads_to_no_other_site(browse: Browse, to: str) -> None:
    client = await browse("read")
    token = client.cookies[TOKEN_COOKIE]

    found = await send(client, "login", token=token, to=to)

    assert found.headers["location"] == "."


async def test_whoever_signs_out_is_asked_again(browse: Browse) -> None:
    client = await browse("read")

    await send(client, "queues", at="logout")

    assert (await client.get("queues")).status_code == 303


async def test_a_token_that_may_read_nothing_sees_nothing(browse: Browse) -> None:
    client = await browse("enqueue")

    for path in [*PATHS, "events"]:
        assert (await client.get(path)).status_code == 403


@pytest.mark.parametrize(("path", "right"), WAYS)
async def test_who_lacks_its_right_is_refused_every_action(
    browse: Browse, path: str, right: Right
) -> None:
    client = await browse(*(each for each in Right if each is not right))

    asked = await client.get(path)
    done = await send(client, "queues", at=path, queue="mail", worker="w-1")

    assert asked.status_code == 403
    assert done.status_code == 403


async def test_who_may_only_read_sees_no_action(browse: Browse, app: wherry.App) -> None:
    await app.aenqueue("send", {}, queue="mail")
    client = await browse("read")

    text = (await client.get("queues")).text

    assert "mail" in text
    assert "data-dialog" not in text


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "https://evil.example"},
        {"origin": "null"},
    ],
    ids=str,
)
@pytest.mark.parametrize("rights", [(), ("read", "admin")], ids=["open", "token"])
async def test_no_other_site_sends_a_form(
    browse: Browse, headers: dict[str, str], rights: tuple[str, ...]
) -> None:
    """SEC-02."""
    client = await browse(*rights)
    page = await client.get("pause?queue=mail")
    [word] = set(re.findall(r'name="form_word" value="(\w+)"', page.text))

    found = await client.post("pause", data={"form_word": word, "queue": "mail"}, headers=headers)

    assert found.status_code == 403


@pytest.mark.parametrize("word", ["", "0" * 43, "é"])
@pytest.mark.parametrize("rights", [(), ("read", "admin")], ids=["open", "token"])
async def test_a_form_without_its_word_does_nothing(
    browse: Browse, app: wherry.App, word: str, rights: tuple[str, ...]
) -> None:
    client = await browse(*rights)
    await client.get("queues")

    found = await client.post("pause", data={"form_word": word, "queue": "mail"})

    assert found.status_code == 403
    assert await app.alist_queues() == []


async def test_a_form_of_somebody_else_does_nothing(browse: Browse, app: wherry.App) -> None:
    client, other = await browse("read", "admin"), await browse()
    page = await other.get("pause?queue=mail")
    [word] = set(re.findall(r'name="form_word" value="(\w+)"', page.text))

    found = await client.post("pause", data={"form_word": word, "queue": "mail"})

    assert found.status_code == 403
    assert await app.alist_queues() == []


async def test_what_is_no_form_is_refused(browse: Browse) -> None:
    client = await browse()

    found = await client.post("pause", json={"queue": "mail"})

    assert found.status_code == 415


async def test_a_name_in_an_address_may_be_any(browse: Browse) -> None:
    client = await browse()

    found = await client.get("queues", params={"page": "1", "self": "2", "q": "\0", "range": "x"})

    assert found.status_code == 200


async def test_a_door_without_a_dashboard_has_none(app: wherry.App, service: Service) -> None:
    authenticator = Authenticator(app, required=False)
    door = HttpDoor(
        service, authenticator, Polls(), HttpSettings(address="127.0.0.1:0", is_open=True)
    )
    await door.start()

    async with httpx.AsyncClient(
        base_url=f"http://127.0.0.1:{door.port}", trust_env=False
    ) as client:
        found = [(await client.get(path)).status_code for path in ("/", "/dashboard/")]
    await door.stop(0.5)
    await authenticator.aclose()

    assert found == [404, 404]


async def test_the_theme_that_was_chosen_stays(browse: Browse) -> None:
    client = await browse()

    await send(client, "queues", at="theme", theme="dark")

    assert 'data-theme="dark"' in (await client.get("workers")).text
