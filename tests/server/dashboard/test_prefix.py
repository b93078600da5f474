"""SEC-04: behind a proxy with a prefix every link, form and asset leads somewhere."""

from __future__ import annotations

import re
from html import unescape
from urllib.parse import urljoin, urlsplit

import httpx
import pytest

import wherry
from tests.server.dashboard.conftest import Browse

MOST_VISITED = 400
_TARGET = re.compile(r'\s(href|src|action)="([^"]*)"')


class Proxy(httpx.AsyncBaseTransport):
    """Takes *prefix* off, as a proxy does; what lies outside of it is somebody else's: 404."""

    def __init__(self, prefix: str, behind: httpx.URL, *, says_it: bool) -> None:
        self._prefix = prefix
        self._behind = behind
        self._says_it = says_it
        self._inner = httpx.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Pass a request on."""
        path = request.url.raw_path.decode()
        if path.partition("?")[0] == self._prefix:
            path += "/" if "?" not in path else ""
        if not path.startswith(f"{self._prefix}/"):
            return httpx.Response(404, request=request)
        url = self._behind.copy_with(raw_path=path.removeprefix(self._prefix).encode())
        headers = [(name, value) for name, value in request.headers.raw if name.lower() != b"host"]
        headers.append((b"host", f"{self._behind.host}:{self._behind.port}".encode()))
        if self._says_it:
            headers.append((b"x-forwarded-prefix", self._prefix.encode()))
        passed = httpx.Request(request.method, url, headers=headers, stream=request.stream)
        return await self._inner.handle_async_request(passed)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._inner.aclose()


@pytest.mark.parametrize(
    ("prefix", "says_it"), [("", False), ("/admin/queue", True), ("/q", False)]
)
async def test_a_crawler_finds_no_dead_link(
    browse: Browse, app: wherry.App, prefix: str, says_it: bool
) -> None:
    """SEC-04."""
    for queue in ("mail", "a/b", "?x=1&y=2#z", "../..", "ü ✓ %2F", '"><b>'):
        await app.aenqueue("send", {"to": 1}, queue=queue)
    client = await browse()
    behind = httpx.URL(str(client.base_url).removesuffix("/dashboard/"))
    visited: dict[str, int] = {}
    # Where the prefix is said, `/` may be asked for without its slash.
    waiting = [f"http://proxy.example{prefix}{'' if says_it else '/'}"]
    forms: set[str] = set()

    transport = Proxy(prefix, behind, says_it=says_it)
    async with httpx.AsyncClient(transport=transport, trust_env=False, timeout=20) as crawler:
        while waiting and len(visited) < MOST_VISITED:
            url = waiting.pop()
            if url in visited:
                continue
            found = await crawler.get(url)
            visited[url] = found.status_code
            if "location" in found.headers:
                waiting.append(urljoin(url, found.headers["location"]))
            if not found.headers.get("content-type", "").startswith("text/html"):
                continue
            for kind, target in _TARGET.findall(found.text):
                there = urljoin(url, unescape(target)).partition("#")[0]
                if urlsplit(there).hostname != "proxy.example":
                    continue
                forms.add(there) if kind == "action" else waiting.append(there)
        # A form may not be asked for as a page, but something is there.
        answered = {url: (await crawler.post(url)).status_code for url in forms}

    assert {url: status for url, status in visited.items() if status >= 400} == {}
    assert {url: status for url, status in answered.items() if status in (404, 500)} == {}
    assert sum("queue?name=" in url for url in visited) >= 6
    assert sum("/static/" in url for url in visited) == 3
