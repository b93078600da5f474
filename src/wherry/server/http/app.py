"""The HTTP application: routes by the table of operations, and stands at the server's edge.

Whatever happens behind this edge, the client is answered with problem details and the log gets no
query, body or token. A request passes, in this order: where it comes from, its route, who sends it,
what it accepts, its body, the call.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine, Mapping
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

import msgspec
from starlette.datastructures import Headers
from starlette.routing import Route, Router
from starlette.types import Message, Receive, Scope, Send

from wherry.domain.token import Right
from wherry.server.http.call import Call, Reply
from wherry.server.http.fields import read_id
from wherry.server.http.guard import check_origin
from wherry.server.http.health import Health
from wherry.server.http.metrics import Metrics
from wherry.server.http.openapi import document
from wherry.server.http.operation import Operation
from wherry.server.http.operations import OPERATIONS, PREFIX
from wherry.server.http.pages import STYLE, page
from wherry.server.http.polling import Client
from wherry.server.http.protocol import SECURITY_HEADERS
from wherry.server.http.reading import check_accepts, check_media, read_body, read_json, read_query
from wherry.server.http.refusals import (
    MEDIA_TYPE,
    Gone,
    Refused,
    problem_body,
    problem_headers,
    refused_body,
)
from wherry.server.problems import problem_of
from wherry.server.underway import UnderWay
from wherry.telemetry.incoming import TRACEPARENT, TRACESTATE, tell
from wherry.telemetry.loggers import logger

if TYPE_CHECKING:
    from wherry.server.auth import Authenticator, Polls
    from wherry.server.caller import Caller
    from wherry.server.dashboard import Dashboard
    from wherry.server.service import Service

log = logger("wherry.server.http")
access = logger("wherry.server.access")

JSON: Final = "application/json"
_API_POLICY: Final = "default-src 'none'; frame-ancestors 'none'"
_PAGE_POLICY: Final = (
    "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'"
)
_ROUTE: Final = "wherry.route"
_DASHBOARD: Final = ("/dashboard", "/dashboard/{rest:path}")
# What a proxy says that it took off an address; anything else could name another host.
_PREFIX: Final = re.compile(r"(?:/[A-Za-z0-9._~-]+)*")


class HttpApp:
    """The ASGI application of one server."""

    def __init__(
        self,
        service: Service,
        *,
        authenticator: Authenticator,
        polls: Polls,
        health: Health,
        metrics: Metrics,
        is_open: bool,
        hosts: tuple[str, ...] = (),
        dashboard: Dashboard | None = None,
    ) -> None:
        """*is_open*: nobody is asked for a token, so other web sites are kept away here."""
        self.service = service
        self.authenticator = authenticator
        self.polls = polls
        self.health = health
        self.metrics = metrics
        self.underway = UnderWay()
        self._is_open = is_open
        self._hosts = hosts
        described = document()
        paths: dict[str, dict[str, Operation]] = {}
        for operation in OPERATIONS:
            paths.setdefault(PREFIX + operation.path, {})[operation.method] = operation
        routes = [Route(path, _Resource(self, path, found)) for path, found in paths.items()]
        texts: dict[str, tuple[str, bytes]] = {
            "/openapi.json": (JSON, msgspec.json.encode(described)),
            "/docs": ("text/html; charset=utf-8", page(described).encode()),
            "/docs.css": ("text/css; charset=utf-8", STYLE.encode()),
        }
        routes += [Route(path, _Text(path, *text)) for path, text in texts.items()]
        routes += [Route(path, _Probe(self, path)) for path in ("/healthz", "/readyz")]
        if dashboard is not None:
            routes += [Route(path, _Mounted(dashboard)) for path in _DASHBOARD]
            routes.append(Route("/", _Front()))
        routes.append(Route("/metrics", _Numbers(self)))
        self._router = Router(routes, redirect_slashes=False, default=_no_route)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        began_at = monotonic()
        status = 0

        named = {name for name, _ in scope["headers"]}
        # By RFC 9112, 6.1: of a body that is framed in two ways others may see another end.
        ends = {b"content-length", b"transfer-encoding"} <= named

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                said = {name for name, _ in message["headers"]}
                more = [header for header in SECURITY_HEADERS if header[0] not in said]
                message["headers"] = [*message["headers"], *more]
                if ends or self.health.draining:
                    message["headers"].append((b"connection", b"close"))
            await send(message)

        method = scope["method"]
        try:
            await self._answer(scope, receive, sending)
        except Gone:
            status = 499
        except asyncio.CancelledError:
            # Only a server that ends cancels this, after its grace; uvicorn would answer 500.
            if not status:
                detail = "the server is shutting down: ask again, another one may be there"
                refused = Refused(503, "SHUTTING_DOWN", detail, headers={"retry-after": "1"})
                await _refuse(refused, sending)
        except Exception as error:
            # The server's edge: whatever it is, it is told.
            if status:
                # The head is on its way; there is no other way to say that it ends badly.
                log.error("an answer to %s broke off", _route_of(scope), exc_info=error)
                raise
            await self._tell(error, scope, sending)
        finally:
            access.info(
                "%s %s %d %.1f ms",
                method[:20],
                _route_of(scope),
                status,
                (monotonic() - began_at) * 1000,
            )

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        if self._is_open and path not in ("/healthz", "/readyz"):
            check_origin(scope["method"], Headers(scope=scope), hosts=self._hosts)
        await self._router(scope, receive, send)

    async def _tell(self, error: Exception, scope: Scope, send: Send) -> None:
        if isinstance(error, Refused):
            await _refuse(error, send)
            return
        problem = problem_of(error, doing=f"{scope['method'][:20]} {_route_of(scope)}")
        await _send(
            send,
            problem.http_status,
            MEDIA_TYPE,
            problem_body(problem),
            problem_headers(problem),
        )

    async def caller_of(self, scope: Scope, headers: Headers) -> Caller:
        """Return who asks. Raises Unauthenticated."""
        given = headers.getlist("authorization")
        # Whoever sends two of them may have had one put in front of theirs.
        authorization = given[0] if len(given) == 1 else None
        client = scope.get("client")
        peer = client[0] if client else ""
        return await self.authenticator.caller_of(authorization, peer=peer)


def _route_of(scope: Scope) -> str:
    return str(scope.get(_ROUTE, "(no route)"))


class _Resource:
    """One path, with what can be done there."""

    def __init__(self, app: HttpApp, path: str, operations: Mapping[str, Operation]) -> None:
        self._app = app
        self._path = path
        self._operations = operations

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[_ROUTE] = self._path
        method = scope["method"]
        operation = self._operations.get("GET" if method == "HEAD" else method)
        if operation is None:
            await _no_method(method, self._operations, send)
            return
        headers = Headers(scope=scope)
        caller = await self._app.caller_of(scope, headers)
        check_accepts(headers, JSON)
        app = self._app
        tell(headers.get(TRACEPARENT), headers.get(TRACESTATE))
        id = scope["path_params"].get("id")
        if id is not None:
            read_id(id)
        call = Call(service=app.service, caller=caller, id=id)
        if not operation.has_body:
            asked = read_query(scope["query_string"], operation.asked)
        else:
            if scope["query_string"]:
                detail = "this takes no parameters beside its body"
                raise Refused(400, "INVALID_REQUEST", detail)
            check_media(headers)
            settings = app.service.settings
            body = await read_body(
                receive,
                headers,
                limit_bytes=settings.request_limit_bytes,
                timeout_seconds=settings.request_timeout.total_seconds(),
            )
            asked = await read_json(body, operation.asked)
        if operation.waits:
            await self._wait(lambda: operation.call(call, asked), caller, receive, send)
        else:
            await _send_reply(send, await app.underway.to_the_end(operation.call(call, asked)))

    async def _wait(
        self,
        call: Callable[[], Coroutine[Any, Any, Reply]],
        caller: Caller,
        receive: Receive,
        send: Send,
    ) -> None:
        """Answer a call that may take long; one whose client hangs up meanwhile is given up."""
        undelivered = self._app.service.undelivered
        client = Client(receive)
        try:
            with self._app.polls.taken(caller):
                reply = await client.unless_gone(call, undelivered=undelivered)
            try:
                if reply.leases:
                    # A token may have been revoked while its holder waited.
                    await self._app.authenticator.confirm(caller)
                await _send_reply(send, reply, client=client)
            except BaseException:
                # Nobody knows of these leases.
                await undelivered(reply.leases)
                raise
        finally:
            await client.leave()


class _Text:
    """A document that is always the same."""

    def __init__(self, path: str, media: str, body: bytes) -> None:
        self._path = path
        self._media = media
        self._body = body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[_ROUTE] = self._path
        if scope["method"] not in ("GET", "HEAD"):
            await _no_method(scope["method"], ("GET",), send)
            return
        check_accepts(Headers(scope=scope), self._media.partition(";")[0])
        policy = {"content-security-policy": _PAGE_POLICY, "cache-control": "no-cache"}
        await _send(send, 200, self._media, self._body, policy)


class _Mounted:
    """The dashboard, which answers for itself."""

    def __init__(self, dashboard: Dashboard) -> None:
        self._dashboard = dashboard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Its addresses name queues and tasks, which are nobody's business in a log.
        scope[_ROUTE] = _DASHBOARD[0]
        await self._dashboard(scope, receive, send)


class _Front:
    """Leads whoever comes to the front door to the dashboard."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[_ROUTE] = "/"
        if scope["method"] not in ("GET", "HEAD"):
            await _no_method(scope["method"], ("GET",), send)
            return
        prefix = Headers(scope=scope).get("x-forwarded-prefix", "").rstrip("/")
        # Where no proxy says its prefix, the address is relative to the one that was asked for.
        to = f"{prefix}/dashboard/" if prefix and _PREFIX.fullmatch(prefix) else "dashboard/"
        await _send(send, 307, None, b"", {"location": to})


class _Probe:
    """Whether the process lives, or is ready to serve."""

    def __init__(self, app: HttpApp, path: str) -> None:
        self._app = app
        self._path = path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[_ROUTE] = self._path
        if scope["method"] not in ("GET", "HEAD"):
            await _no_method(scope["method"], ("GET",), send)
            return
        if self._path == "/readyz":
            await self._app.health.check()
        await _send(send, 200, "text/plain; charset=utf-8", b"ok\n", {})


class _Numbers:
    """What Prometheus asks for: it tells of all queues, so that is what a token must allow."""

    def __init__(self, app: HttpApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[_ROUTE] = "/metrics"
        if scope["method"] not in ("GET", "HEAD"):
            await _no_method(scope["method"], ("GET",), send)
            return
        headers = Headers(scope=scope)
        caller = await self._app.caller_of(scope, headers)
        caller.require(Right.READ, None)
        media, body = await self._app.metrics.shown(headers.get("accept", ""))
        await _send(send, 200, media, body, {})


async def _no_route(scope: Scope, receive: Receive, send: Send) -> None:
    raise Refused(404, "NO_ROUTE", "nothing is at this address: see /docs for what there is")


async def _no_method(
    method: str, known: Mapping[str, Operation] | tuple[str, ...], send: Send
) -> None:
    allowed = {"OPTIONS", *known}
    if "GET" in allowed:
        allowed.add("HEAD")
    allow = {"allow": ", ".join(sorted(allowed))}
    if method != "OPTIONS":
        detail = f"this address takes {allow['allow']}"
        raise Refused(405, "METHOD_NOT_ALLOWED", detail, headers=allow)
    await _send(send, 204, None, b"", allow)


async def _send_reply(send: Send, reply: Reply, *, client: Client | None = None) -> None:
    body = msgspec.json.encode(reply.answer)
    watched = client if reply.leases else None
    await _send(send, reply.status, JSON, body, reply.headers, client=watched)


async def _refuse(refused: Refused, send: Send) -> None:
    await _send(send, refused.status, MEDIA_TYPE, refused_body(refused), refused.headers)


async def _send(
    send: Send,
    status: int,
    media: str | None,
    body: bytes,
    headers: Mapping[str, str],
    *,
    client: Client | None = None,
) -> None:
    said = {"cache-control": "no-store", "content-security-policy": _API_POLICY, **headers}
    if media is not None:
        said |= {"content-type": media, "content-length": str(len(body))}
    encoded = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in said.items()]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    if client is not None:
        # A connection that was lost is often noticed by this write only.
        await client.look()
    await send({"type": "http.response.body", "body": body})
