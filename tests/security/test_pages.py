"""What a browser makes of the answers: nothing in them is run, and links hold behind a proxy."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from html.parser import HTMLParser
from typing import Any
from urllib.parse import quote, urldefrag, urljoin

import httpx
import pytest

import wherry
from tests.security.doors import HttpCalls
from tests.security.places import bearer, create
from wherry.server.run import Server

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "javascript:alert(1)",
    "</script><script>alert(1)</script>",
    "{{7*7}}${7*7}<%= 7*7 %>",
    "\u202e<svg onload=alert(1)>",
    "'; alert(1)//",
)
RIGHTS = ("enqueue", "work", "read", "admin")


class Links(HTMLParser):
    """Everything in a page that points somewhere, or would be run."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: set[str] = set()
        self.anchors: set[str] = set()
        self.run: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "iframe", "object", "embed", "form", "base", "style"):
            self.run.append(tag)
        for name, value in attrs:
            if name in ("href", "src", "action"):
                self.found.add(value or "")
            elif name == "id":
                self.anchors.add(value or "")
            elif name.startswith("on") or name == "style":
                self.run.append(name)


async def test_hostile_names_come_back_as_data_and_never_as_a_page(
    app: wherry.App, over_http: HttpCalls
) -> None:
    """SEC-01: in every field, and in every refusal that repeats what was sent."""
    shown = bearer(await create(app, *RIGHTS))
    answers: list[httpx.Response] = []

    async def note(response: httpx.Response) -> None:
        await response.aread()
        answers.append(response)

    over_http.client.event_hooks = {"response": [note]}
    for n, text in enumerate(HOSTILE):
        task = {"queue": text, "type": text, "key": text, "tags": [text], "headers": {text: text}}
        stored = await over_http("Enqueue", {**task, "payload": "{}"}, shown)
        assert stored.code == "OK"
        found = await over_http("GetTask", {"id": stored.body["id"]}, shown)
        fields = ("queue", "type", "key", "tags", "headers")
        assert [found.body["task"][name] for name in fields] == [
            task["queue"],
            task["type"],
            task["key"],
            task["tags"],
            task["headers"],
        ]
        leased = await over_http("Lease", {"worker_id": text, "queues": [text]}, shown)
        [lease] = [each["lease"] for each in leased.body["tasks"]]
        error = {"type": text, "message": text, "traceback": text}
        await over_http("Fail", {"lease": lease, "error": error, "retry": False}, shown)
        await over_http("PauseQueue", {"queue": text, "reason": text}, shown)
        for rpc in ("ListQueues", "ListTasks", "ListWorkers"):
            await over_http(rpc, {}, shown)
        for refused in (
            {"type": text, "delay": text},
            {"type": "t", "priority": text},
            {"type": "t", "retry": {text: 1}},
            {"type": "t", text: 1},
        ):
            assert (await over_http("Enqueue", refused, shown)).code == "INVALID_ARGUMENT", n
        await over_http("Complete", {"lease": text}, shown)
        client = over_http.client
        for path in (f"/{quote(text)}", f"/api/v1/tasks/{quote(text)}", f"/docs?{quote(text)}"):
            await client.get(path, headers={"authorization": shown, "referer": quote(text)})
        await client.get("/docs", headers={"accept": quote(text)})
        await client.get(f"/api/v1/tasks?{quote(text)}={quote(text)}&state={quote(text)}")

    pages = {answer.text for answer in answers if answer.headers["content-type"][:9] == "text/html"}
    [page] = pages
    assert not [text for text in HOSTILE if text in page]
    for answer in answers:
        kind = answer.headers["content-type"].partition(";")[0]
        assert kind in ("application/json", "application/problem+json", "text/html")
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]


async def test_the_documentation_runs_nothing(over_http: HttpCalls) -> None:
    """SEC-01: no script, no handler, no style within, nothing from elsewhere."""
    page = Links((await over_http.client.get("/docs")).text)

    assert page.run == []
    assert not [link for link in page.found if re.match(r"[a-z]+:|//", link)]


class Prefixed(httpx.AsyncBaseTransport):
    """A proxy that serves a server below a prefix, which it takes off."""

    def __init__(self, base: str, prefix: str) -> None:
        self.base = base
        self.prefix = prefix
        self.inner = httpx.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        path = request.url.raw_path.decode()
        if not path.startswith(f"{self.prefix}/"):
            return httpx.Response(404, text=f"outside: {path}")
        request.headers["x-forwarded-prefix"] = self.prefix
        target = httpx.URL(self.base).copy_with(raw_path=path[len(self.prefix) :].encode())
        inner = httpx.Request(
            request.method, target, headers=request.headers, content=await request.aread()
        )
        return await self.inner.handle_async_request(inner)

    async def aclose(self) -> None:
        await self.inner.aclose()


@pytest.fixture(params=["", "/queue", "/admin/my%20queue"])
async def behind(
    request: pytest.FixtureRequest, server: Server
) -> AsyncIterator[tuple[httpx.AsyncClient, str]]:
    """A client behind a proxy, and the address of the prefix there."""
    transport = Prefixed(server.bound.http_url or "", request.param)
    async with httpx.AsyncClient(transport=transport) as client:
        yield client, f"http://shop.example{request.param}"


async def test_every_link_leads_somewhere_behind_a_prefix(
    app: wherry.App, behind: tuple[httpx.AsyncClient, str]
) -> None:
    """SEC-04: crawled from the page and from the document; no 404."""
    client, prefix = behind
    shown = {"authorization": bearer(await create(app, *RIGHTS))}
    start = f"{prefix}/docs"
    page = Links((await client.get(start)).text)
    visited = 0
    for link in page.found:
        address, fragment = urldefrag(urljoin(start, link))
        if fragment:
            assert fragment in page.anchors, link
        said = await client.get(address)
        assert said.status_code == 200, (link, said.text)
        visited += 1
    assert visited > 20

    found = urljoin(start, "openapi.json")
    document: Any = (await client.get(found)).json()
    [server] = document["servers"]
    base = urljoin(found, server["url"])
    asked = 0
    for path, methods in document["paths"].items():
        for method in methods:
            address = base + path.replace("{id}", "1")
            said = await client.request(method.upper(), address, headers=shown)
            # The task 1 is not there; the address is.
            assert "NO_ROUTE" not in said.text, path
            assert said.status_code in (200, 400, 415) or "{id}" in path, (path, said.text)
            asked += 1
    assert asked > 20
