"""Every rpc and every route, found by looking: none answers who has no right to be answered.

What there is comes from the server itself: from its reflection service, and from the routes of the
HTTP application. A new one fails here until `rights.py` says what it needs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import psycopg
from google.protobuf import descriptor_pb2
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

import wherry
from tests.security.doors import Calls, GrpcCalls, HttpCalls, Said
from tests.security.doors import over_http as http_request
from tests.security.places import HUSH, MINE, OTHER, Place, bearer, create, dump, place
from tests.security.rights import NEEDS, Elsewhere
from wherry.commands.tokens import RevokeToken
from wherry.domain.token import Right, Token, draw_token
from wherry.server.auth import Authenticator, Polls
from wherry.server.http.app import HttpApp
from wherry.server.http.health import Health
from wherry.server.http.metrics import Metrics
from wherry.server.run import Server
from wherry.server.service import Service

RIGHTS = [str(right) for right in Right]
# Answered without a token: what the contract is, and whether the server lives. No data.
PUBLIC = {"/openapi.json", "/docs", "/docs.css", "/healthz", "/readyz"}
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "TRACE", "PROPFIND", "OPTIONS")


async def reflected(calls: GrpcCalls, *shown: str) -> dict[str, list[str]]:
    """Ask the server which services it has, and which rpcs each."""
    channel: Any = calls.channel
    stub: Any = reflection_pb2_grpc.ServerReflectionStub(channel)
    metadata = [("authorization", value) for value in shown]
    kind: Any = reflection_pb2.ServerReflectionRequest

    async def ask(**fields: Any) -> Any:
        async for answer in stub.ServerReflectionInfo(iter([kind(**fields)]), metadata=metadata):
            return answer
        raise AssertionError("no answer")

    services = (await ask(list_services="*")).list_services_response.service
    found: dict[str, list[str]] = {}
    for service in services:
        answer = await ask(file_containing_symbol=service.name)
        for data in answer.file_descriptor_response.file_descriptor_proto:
            file = descriptor_pb2.FileDescriptorProto.FromString(data)
            for each in file.service:
                if f"{file.package}.{each.name}" == service.name:
                    found[service.name] = [method.name for method in each.method]
    return found


def garbage(token: Token) -> dict[str, tuple[str, ...]]:
    """What is no token, or nobody's, by what is wrong with it; the first good one is *token*."""
    good = bearer(token)
    made_up = draw_token()
    wrong = good[:-4] + ("aaaa" if good[-4:] != "aaaa" else "bbbb")
    return {
        "nothing": (),
        "an empty value": ("",),
        "only the scheme": ("Bearer",),
        "no scheme": (token.reveal(),),
        "another scheme": ("Basic d2hlcnJ5OndoZXJyeQ==",),
        "another scheme with the token": (f"Basic {token.reveal()}",),
        "a made-up id": (bearer(made_up),),
        "the wrong secret": (wrong,),
        "somebody's id, another's secret": (
            f"Bearer wherry_{token.id}_{made_up.reveal().rpartition('_')[2]}",
        ),
        "in capitals": (good.upper(),),
        "with a space behind": (f"{good} x",),
        "two schemes": (f"Bearer {good}",),
        "a comma and another": (f"{good},{good}",),
        "cut": (good[:-1],),
        "longer": (f"{good}a",),
        "an SQL injection": ("Bearer wherry_' or '1'='1_" + "a" * 52,),
        "percent": (good.replace("_", "%5F"),),
        "very long": (f"Bearer wherry_{'a' * 4000}",),
        "the same twice": (good, good),
        "the right one and another": (good, bearer(made_up)),
        "another and the right one": ("Basic eDp4", good),
    }


async def refused_tokens(app: wherry.App, sql: psycopg.Connection[Any]) -> dict[str, Any]:
    """Return everything that is refused for what it is, whatever is asked for."""
    good = await create(app, *RIGHTS)
    expired, revoked = await create(app, *RIGHTS, lasts_seconds=60), await create(app, *RIGHTS)
    sql.execute(
        "update wherry.token set expires_at = wherry.now() - interval '1 s' where id = %s",
        [expired.id],
    )
    await app.acarry(RevokeToken(revoked.id))
    return {
        **garbage(good),
        "expired": (bearer(expired),),
        "revoked": (bearer(revoked),),
    }


def only_http(token: Token) -> dict[str, tuple[bytes, ...]]:
    """What no gRPC client sends."""
    good = bearer(token).encode()
    return {
        "bytes that are no text": (b"Bearer \xff\xfe\xfd",),
        "letters that are not ASCII": ("Bearer wherry_äöü_ß".encode(),),
        "a look-alike": (good.replace(b"w", "ｗ".encode()),),
        "very long": (b"Bearer wherry_" + b"a" * 50_000,),
    }


def hears(said: Said, expected: Elsewhere, *, what: str) -> None:
    """Fail unless *said* is what somebody without the right is told."""
    where = f"{what}: {said.code} {said.text[:500]}"
    if expected == "denied":
        assert said.code == "PERMISSION_DENIED", where
        return
    if expected == "not found":
        assert said.code == "NOT_FOUND", where
        return
    assert said.code == "OK", where
    assert HUSH not in said.text, where
    if expected == "each item denied":
        [items] = [value for value in said.body.values() if isinstance(value, list)]
        assert items, where
        for item in items:
            reason = item.get("problem", {}).get("reason", "PERMISSION_DENIED")
            assert reason == "PERMISSION_DENIED", where
            assert "problem" in item or "INVALID" in item["answer"].upper(), where
            assert "task" not in item, where


async def test_every_rpc_and_every_route_says_what_it_needs(
    server: Server, over_grpc: GrpcCalls
) -> None:
    """Whoever adds an rpc or a route has to say who may call it."""
    found = await reflected(over_grpc, bearer(await create(server.app, "read")))
    taken = {path for path in routes_of(server) if path not in PUBLIC}

    assert set(found) == {"wherry.v1.TaskQueue", "grpc.health.v1.Health"}
    assert set(found["wherry.v1.TaskQueue"]) == set(NEEDS)
    described = {http_request(rpc, ANY[rpc])[1] for rpc in NEEDS} | {"/api/v1/tasks:find"}
    # Of no verb; who may ask is in tests/server/http/test_metrics.py.
    assert taken - {"/metrics"} == {path.replace("/7", "/{id}") for path in described}


_PLACE = Place("q", 7, "k", 7, "l", 7, "s")
ANY = {rpc: need.fields(_PLACE) for rpc, need in NEEDS.items()}


def routes_of(server: Server) -> list[str]:
    """Return the path of every route of the HTTP application."""
    desk: Any = None
    app = HttpApp(
        Service(server.app, desk=desk),
        authenticator=Authenticator(server.app),
        polls=Polls(),
        health=Health(server.app),
        metrics=Metrics(server.app, None),
        is_open=False,
    )
    router: Any = vars(app)["_router"]
    return [route.path for route in router.routes]


async def test_who_is_nobody_is_refused_and_changes_nothing(
    app: wherry.App, doors: list[Calls], connect: Callable[..., Any]
) -> None:
    sql = connect()
    mine = await place(app, MINE)
    shown = await refused_tokens(app, sql)
    bytes_shown = only_http(await create(app, *RIGHTS))
    texts: set[str] = set()
    before = dump(sql)

    for rpc, need in NEEDS.items():
        for call in doors:
            more = bytes_shown if isinstance(call, HttpCalls) else {}
            for what, values in {**shown, **more}.items():
                said = await call(rpc, need.fields(mine), *values)

                assert said.code == "UNAUTHENTICATED", f"{rpc}, {call.name}, {what}: {said}"
                texts.add(f"{call.name} {said.text}")
        assert dump(sql) == before, rpc
    # The same words whatever is wrong, or they would tell which ids there are.
    assert len(texts) == 2
    assert HUSH not in "".join(texts)


async def test_who_lacks_the_right_or_the_queue_is_refused_and_changes_nothing(
    app: wherry.App, doors: list[Calls], connect: Callable[..., Any]
) -> None:
    sql = connect()
    other = await place(app, OTHER)
    # Globs that match other queues, some of them nearly this one.
    near = (MINE, "othe", "other?", "[!o]*", "OTHER", "o*x", "other.*")
    for rpc, need in NEEDS.items():
        if need.right is None:
            continue
        without: list[Token] = []
        for lacking in need.rights:
            others = [right for right in RIGHTS if right != lacking]
            without += [await create(app, *others), await create(app, *others, queues=(OTHER,))]
        elsewhere = [
            await create(app, *need.rights, queues=(MINE,)),
            await create(app, *need.rights, queues=near),
        ]
        if need.needs_star:
            elsewhere += [await create(app, *RIGHTS, queues=("o*", "?*", "[*]"))]
        # Who may work in another queue may be listed there as a worker, by a heartbeat.
        before = dump(sql, but=("worker",))

        for call in doors:
            where = f"{rpc}, {call.name}"
            for token in without:
                said = await call(rpc, need.fields(other), bearer(token))
                hears(said, need.without, what=f"{where}, without the right")
            for token in elsewhere:
                said = await call(rpc, need.fields(other), bearer(token))
                hears(said, need.elsewhere, what=f"{where}, elsewhere")

        assert dump(sql, but=("worker",)) == before, rpc


async def test_who_has_the_right_is_answered(app: wherry.App, doors: list[Calls]) -> None:
    everything = await create(app, *RIGHTS)
    for rpc, need in NEEDS.items():
        queue = f"o-{rpc}-her"
        # Nothing but the right and the queue.
        globs = ("*",) if need.needs_star else ("o?[A-Z]*her",)
        only = await create(app, *(need.rights or ("enqueue",)), queues=globs)
        for call in doors:
            for token in (only, everything):
                said = await call(rpc, need.fields(await place(app, queue)), bearer(token))

                assert said.code == "OK", f"{rpc}, {call.name}: {said}"
                assert "INVALID" not in said.text.upper(), f"{rpc}, {call.name}: {said}"
                assert "problem" not in said.text, f"{rpc}, {call.name}: {said}"
                await app.aresume_queue(queue)


async def test_no_route_answers_without_a_token_whatever_the_method(
    server: Server, over_http: HttpCalls, connect: Callable[..., Any]
) -> None:
    sql = connect()
    before = dump(sql)
    paths = routes_of(server)

    for path in paths:
        for method in METHODS:
            said = await over_http.client.request(method, path.replace("{id}", "1"))

            where = f"{method} {path}: {said.status_code} {said.text[:200]}"
            assert said.status_code in (200, 204, 401, 405), where
            if said.status_code == 204:
                assert method == "OPTIONS", where
            if said.status_code == 200:
                assert path in PUBLIC, where
                assert method in ("GET", "HEAD"), where
    assert len(paths) > 20
    assert dump(sql) == before


async def test_no_way_of_writing_a_path_gets_around_the_token(server: Server) -> None:
    base = httpx.URL(server.bound.http_url or "")
    for path in (
        "//api/v1/queues",
        "/api/v1/queues/",
        "/api/v1//queues",
        "/api/v1/./queues",
        "/docs/../api/v1/queues",
        "/api/v1/%71ueues",
        "/API/V1/queues",
        "/api/v1/queues;x=1",
        "/api/v1/queues%00",
        "/healthz/../api/v1/queues",
        "/docs%2f..%2fapi/v1/queues",
    ):
        # A client would tidy the path.
        async with httpx.AsyncHTTPTransport() as transport:
            url = base.copy_with(raw_path=path.encode())
            said = await transport.handle_async_request(httpx.Request("GET", url))
            await said.aread()

        assert said.status_code in (401, 404), path


async def test_reflection_is_for_those_who_are_let_in(over_grpc: GrpcCalls) -> None:
    channel: Any = over_grpc.channel
    stub: Any = reflection_pb2_grpc.ServerReflectionStub(channel)
    kind: Any = reflection_pb2.ServerReflectionRequest

    call = stub.ServerReflectionInfo(iter([kind(list_services="*")]))

    assert (await call.code()).name == "UNAUTHENTICATED"
