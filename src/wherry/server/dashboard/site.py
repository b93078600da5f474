"""The dashboard's edge: finds the page, who asks and whether they may; answers whatever happens."""

from __future__ import annotations

import asyncio
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, quote

from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from wherry.errors import PermissionDenied, Unauthenticated
from wherry.server.caller import Caller, Right
from wherry.server.dashboard import session
from wherry.server.dashboard.answers import (
    HTML,
    Reply,
    check_sender,
    redirect,
    send_reply,
)
from wherry.server.dashboard.asking import (
    MOST_FIELDS,
    Action,
    Page,
    Question,
    Shown,
    Visit,
)
from wherry.server.dashboard.assets import FOR_EVER, asset_at
from wherry.server.dashboard.frame import framed
from wherry.server.dashboard.hiding import Rules
from wherry.server.dashboard.live import Live
from wherry.server.dashboard.pages import ACTIONS, PAGES
from wherry.server.dashboard.render import warm
from wherry.server.dashboard.rounds import Rounds
from wherry.server.dashboard.shared import Shared
from wherry.server.http.reading import read_body
from wherry.server.http.refusals import Gone, Refused
from wherry.server.problems import problem_of
from wherry.telemetry.loggers import logger

if TYPE_CHECKING:
    from wherry.server.auth import Authenticator
    from wherry.server.service import Service

log = logger("wherry.server.dashboard")

ROOT: Final = "/dashboard"
_PAGES: Final = {page.path: page for page in PAGES}
_ACTIONS: Final = {action.path: action for action in ACTIONS}
_FORM_MEDIA: Final = "application/x-www-form-urlencoded"
_FORM_LIMIT_BYTES: Final = 256 * 1024
# Who opens a link in a chat shows no cookie, since another site sent them.
_FROM_ELSEWHERE: Final = ("cross-site", "same-site")


class Dashboard:
    """The ASGI application below /dashboard, of one server and in one event loop."""

    def __init__(self, service: Service, authenticator: Authenticator, *, is_open: bool) -> None:
        """*is_open*: nobody is asked for a token. Raises ConfigError for a rule that is none."""
        self._service = service
        self._authenticator = authenticator
        self._is_open = is_open
        self._rules = Rules.of(service.settings.redact)
        self._shared = Shared()
        self._rounds = Rounds(service.app)
        self.live = Live(service, authenticator, self._shared)
        # The first visitor may come in the middle of an incident.
        self._warming = asyncio.create_task(asyncio.to_thread(warm), name="templates")

    async def aclose(self) -> None:
        """Let everybody go who watches, and ask the database nothing more."""
        await self.live.close()
        await self._shared.aclose()
        await self._rounds.aclose()
        await asyncio.wait([self._warming])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        name = path.removeprefix(ROOT).removeprefix("/")
        asking = _Asking(self, scope, receive, name)
        if name == "events" and scope["method"] == "GET":
            await asking.events(send)
            return
        try:
            reply = await asking.answer(path)
        except Exception as error:  # noqa: BLE001 - the server's edge: whatever it is, it is told
            reply = asking.trouble(error)
        await send_reply(reply, send, without_body=scope["method"] == "HEAD")

    async def caller_of(self, scope: Scope, cookies: Mapping[str, str]) -> Caller:
        """Return who asks. Raises Unauthenticated."""
        client = scope.get("client")
        token = cookies.get(session.TOKEN_COOKIE)
        authorization = None if token is None else f"Bearer {token}"
        peer = client[0] if client else ""
        return await self._authenticator.caller_of(authorization, peer=peer)

    def visit(self, name: str, caller: Caller, **asked: Any) -> Visit:
        """Return a request as the pages see it."""
        return Visit(
            name=name,
            caller=caller,
            service=self._service,
            shared=self._shared,
            rounds=self._rounds,
            rules=self._rules,
            is_open=self._is_open,
            **asked,
        )

    @property
    def is_open(self) -> bool:
        """Whether nobody is asked for a token."""
        return self._is_open

    @property
    def request_seconds(self) -> float:
        """How long a form may take to be here."""
        return self._service.settings.request_timeout.total_seconds()

    async def changed(self) -> None:
        """Something was changed by hand: who looks is to see it."""
        self._shared.forget()
        await self.live.pulse.tell()


class _Asking:
    """One request on its way through the dashboard."""

    def __init__(self, site: Dashboard, scope: Scope, receive: Receive, name: str) -> None:
        self._site = site
        self._scope = scope
        self._receive = receive
        self._name = name
        self._headers = Headers(scope=scope)
        self._cookies = session.cookies_of(self._headers)
        self._set: list[str] = []
        self._visit: Visit | None = None
        self._query: dict[str, list[str]] = {}

    @property
    def _is_secure(self) -> bool:
        forwarded = self._headers.get("x-forwarded-proto", "")
        return self._scope["scheme"] == "https" or forwarded.strip().lower() == "https"

    @property
    def _is_parts(self) -> bool:
        """Whether our script asks, for what is within the frame."""
        return "x-wherry-parts" in self._headers

    async def events(self, send: Send) -> None:
        """Tell of changes until the browser leaves."""
        try:
            caller = await self._site.caller_of(self._scope, self._cookies)
            caller_may_look(caller)
        except Exception as error:  # noqa: BLE001 - the server's edge
            problem = problem_of(error, doing="GET /dashboard/events")
            await send_reply(Reply(problem.http_status, media=None), send)
            return
        await self._site.live.stream(caller, self._receive, send)

    async def answer(self, path: str) -> Reply:
        """Return the answer, or raise what is told instead of it."""
        name, method = self._name, self._scope["method"]
        if path == ROOT:
            query = self._scope["query_string"].decode("latin-1")
            return redirect(f"dashboard/{'?' if query else ''}{query}", status=308)
        if name.startswith("static/"):
            return _static(name.removeprefix("static/"), method)
        if method not in ("GET", "HEAD", "POST"):
            raise Refused(405, "METHOD_NOT_ALLOWED", "this address takes GET, HEAD and POST")
        self._query = _pairs(self._scope["query_string"].decode("latin-1"))
        if session.form_word(self._cookies) is None:
            key = session.new_form_key()
            self._cookies[session.FORM_COOKIE] = key
            self._set.append(
                session.set_cookie(session.FORM_COOKIE, key, is_secure=self._is_secure)
            )
        form = await self._form() if method == "POST" else {}
        if name == "login":
            return await self._login(form)
        if name == "logout" and method == "POST":
            gone = session.drop_cookie(session.TOKEN_COOKIE, is_secure=self._is_secure)
            return redirect("login", cookies=[gone])
        if name == "theme" and method == "POST":
            return self._theme(form)
        page, action = _PAGES.get(name), _ACTIONS.get(name)
        if page is None and action is None:
            raise Refused(404, "NO_ROUTE", "There is no page at this address.")
        try:
            caller = await self._site.caller_of(self._scope, self._cookies)
        except Unauthenticated:
            return self._who_are_you()
        caller_may_look(caller)
        both = {
            key: [*self._query.get(key, []), *form.get(key, [])] for key in {*self._query, *form}
        }
        visit = self._site.visit(
            name,
            caller,
            query={key: values[-1] for key, values in self._query.items()},
            form={key: values[-1] for key, values in form.items()},
            lists=both,
            word=session.form_word(self._cookies) or "",
        )
        self._visit = visit
        if page is not None:
            if method == "POST":
                raise Refused(405, "METHOD_NOT_ALLOWED", "this address takes GET and HEAD")
            return await self._page(page, await page.show(visit))
        assert action is not None
        return await self._action(action, visit, method)

    async def _action(self, action: Action, visit: Visit, method: str) -> Reply:
        if action.right not in visit.caller.rights:
            raise PermissionDenied(f"the right {action.right} is needed for this")
        went = await (action.act(visit) if method == "POST" else action.ask(visit))
        if isinstance(went, Question):
            values = {"question": went, "is_answer": method == "POST"}
            shown = Shown("question.html", went.title, values)
            return await self._page(Page(action.path, _never, action.nav), shown)
        await self._site.changed()
        if isinstance(went, Shown):
            return await self._page(Page(action.path, _never, action.nav), went)
        said = urlsafe_b64encode(f"{int(went.is_good)}{went.said[:600]}".encode()).decode()
        cookie = session.set_cookie(
            session.SAID_COOKIE, said, is_secure=self._is_secure, seconds=60
        )
        return redirect(went.to, cookies=[cookie] if went.said else [])

    async def _page(self, page: Page, shown: Shown) -> Reply:
        said = None
        if session.SAID_COOKIE in self._cookies and not self._is_parts:
            said = _said(self._cookies[session.SAID_COOKIE])
            gone = session.drop_cookie(session.SAID_COOKIE, is_secure=self._is_secure)
            self._set.append(gone)
        # A large page takes seconds to write, in which workers are to be answered.
        return await asyncio.to_thread(self._framed, shown, nav=page.nav, said=said)

    def _framed(
        self, shown: Shown, *, nav: str | None, said: tuple[bool, str] | None = None
    ) -> Reply:
        body = framed(
            shown,
            visit=self._visit,
            nav=nav,
            said=said,
            is_parts=self._is_parts,
            is_open=self._site.is_open,
            theme=_theme_of(self._cookies),
            form_word=session.form_word(self._cookies) or "",
        )
        return Reply(shown.status, body, HTML, cookies=self._set)

    async def _form(self) -> dict[str, list[str]]:
        """Return what a form sends. Raises Refused unless it is one of ours."""
        check_sender(self._headers)
        media = self._headers.get("content-type", "").partition(";")[0].strip().lower()
        if media != _FORM_MEDIA:
            raise Refused(415, "UNSUPPORTED_MEDIA_TYPE", f"this takes a form, as {_FORM_MEDIA}")
        body = await read_body(
            self._receive,
            self._headers,
            limit_bytes=_FORM_LIMIT_BYTES,
            timeout_seconds=self._site.request_seconds,
        )
        form = _pairs(body.decode("latin-1"))
        [*_, word] = form.pop(session.FORM_FIELD, [""])
        if not session.knows_the_word(self._cookies, word):
            raise Refused(
                403,
                "STALE_FORM",
                "This form is not of this session: load its page again, and send it from there.",
            )
        return form

    async def _login(self, form: Mapping[str, list[str]]) -> Reply:
        to = _own_page([*self._query.get("to", []), *form.get("to", [])])
        if self._site.is_open:
            return redirect(to or ".")
        refused = False
        if form:
            token = form.get("token", [""])[-1].strip()
            try:
                await self._site.caller_of(self._scope, {session.TOKEN_COOKIE: token})
            except Unauthenticated:
                refused = True
            else:
                cookie = session.set_cookie(
                    session.TOKEN_COOKIE,
                    token,
                    is_secure=self._is_secure,
                    seconds=session.TOKEN_SECONDS,
                )
                return redirect(to or ".", cookies=[cookie])
        status = 403 if refused else 200
        shown = Shown("login.html", "Sign in", {"to": to, "is_refused": refused}, status)
        return self._framed(shown, nav=None)

    def _who_are_you(self) -> Reply:
        if self._is_parts:
            return Reply(401, media=None)
        query = self._scope["query_string"].decode("latin-1")
        to = self._name + (f"?{query}" if query else "")
        is_sent = self._headers.get("sec-fetch-site") in _FROM_ELSEWHERE
        if is_sent and session.TOKEN_COOKIE not in self._cookies:
            # A second look, from a page of our own, brings the cookie along.
            return self._framed(Shown("again.html", "Wherry"), nav=None)
        return redirect(f"login?to={quote(to, safe='')}" if to else "login", cookies=self._set)

    def _theme(self, form: Mapping[str, list[str]]) -> Reply:
        asked = form.get("theme", [""])[-1]
        theme = asked if asked in session.THEMES else session.THEMES[0]
        cookie = session.set_cookie(
            session.THEME_COOKIE, theme, is_secure=self._is_secure, seconds=session.THEME_SECONDS
        )
        return redirect(_own_page(form.get("to", [])) or ".", cookies=[cookie])

    def trouble(self, error: Exception) -> Reply:
        """Return the page that says what went wrong."""
        if isinstance(error, Gone):
            return Reply(499, media=None)
        if isinstance(error, Refused):
            status, reason, detail, id = error.status, error.reason, error.detail, None
        else:
            name = self._name if self._name in _PAGES or self._name in _ACTIONS else "?"
            doing = f"{self._scope['method'][:20]} {ROOT}/{name}"
            problem = problem_of(error, doing=doing)
            status, reason = problem.http_status, problem.reason
            detail, id = problem.detail, problem.id
        values = {"reason": reason, "detail": detail, "id": id, "status": status}
        return self._framed(
            Shown("trouble.html", _TITLES.get(status, "It failed"), values, status), nav=None
        )


_TITLES: Final = {
    400: "That cannot be asked",
    403: "Not allowed",
    404: "Not found",
    409: "That is not possible now",
    503: "The database is out of reach",
}


def caller_may_look(caller: Caller) -> None:
    """Raise PermissionDenied for a token that may read nothing."""
    if Right.READ not in caller.rights:
        raise PermissionDenied("the right read is needed to look at the dashboard")


async def _never(_visit: Visit) -> Shown:
    raise AssertionError("a question is shown by itself")


def _static(name: str, method: str) -> Reply:
    asset = asset_at(name)
    if asset is None or method not in ("GET", "HEAD"):
        raise Refused(404, "NO_ROUTE", "There is nothing at this address.")
    return Reply(200, asset.body, asset.media, {"cache-control": FOR_EVER})


def _pairs(text: str) -> dict[str, list[str]]:
    """Return what a query or a form says. Raises Refused for what is none."""
    found: dict[str, list[str]] = {}
    try:
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS)
    except ValueError:
        raise Refused(400, "INVALID_REQUEST", "this is no list of name=value in UTF-8") from None
    for name, value in pairs:
        found.setdefault(name, []).append(value)
    return found


def _own_page(given: list[str]) -> str:
    """Return where to go next, if it is one of our pages; never another address."""
    name, _, query = (given[-1] if given else "").partition("?")
    if name not in _PAGES and name not in _ACTIONS:
        return ""
    return f"{name or '.'}?{quote(query, safe='=&%+-._~*')}" if query else name


def _said(cookie: str) -> tuple[bool, str] | None:
    try:
        text = urlsafe_b64decode(cookie.encode()).decode()
    except ValueError:
        return None
    return (text[:1] == "1", text[1:]) if text else None


def _theme_of(cookies: Mapping[str, str]) -> str:
    theme = cookies.get(session.THEME_COOKIE, "")
    return theme if theme in session.THEMES else session.THEMES[0]
