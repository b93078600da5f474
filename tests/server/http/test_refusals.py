"""What is refused, and how: problem details with a reason, a path, and no 500."""

from __future__ import annotations

import gzip
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx

JSON = {"content-type": "application/json"}
DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "reference" / "http.md"


def reason_of(answer: httpx.Response) -> str:
    """Return the problem's reason; the answer must be one in every respect."""
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    problem = answer.json()
    assert problem["status"] == answer.status_code
    assert problem["type"] == "/problems/" + problem["reason"].lower().replace("_", "-")
    assert problem["title"]
    assert problem["detail"]
    return str(problem["reason"])


BAD_BODIES: list[tuple[str, str | None]] = [
    ("", None),
    ("{", None),
    ("nul", None),
    ("[]", None),
    ("7", None),
    ('{"type": "a"} x', None),
    ("\ufeff{}", None),
    ("{}", "type"),
    ('{"type": 7}', "type"),
    ('{"type": null}', "type"),
    ('{"type": "a", "typ": 1}', "typ"),
    ('{"type": "a", "queue": "*"}', "queue"),
    ('{"type": "a\\u0000"}', "type"),
    ('{"type": "a\\n"}', "type"),
    ('{"type": "' + "x" * 256 + '"}', "type"),
    ('{"type": "' + "ü" * 200 + '"}', "type"),
    ('{"type": "a", "priority": 101}', "priority"),
    ('{"type": "a", "priority": ' + "9" * 5000 + "}", "priority"),
    ('{"type": "a", "priority": 1e999}', "priority"),
    ('{"type": "a", "max_attempts": 0}', "max_attempts"),
    ('{"type": "a", "delay": 5}', "delay"),
    ('{"type": "a", "delay": "5"}', "delay"),
    ('{"type": "a", "delay": "-5s"}', "delay"),
    ('{"type": "a", "delay": "1e3s"}', "delay"),
    ('{"type": "a", "delay": "3155760001s"}', "delay"),
    ('{"type": "a", "delay": "5s\\n"}', "delay"),
    ('{"type": "a", "timeout": "0.0s"}', "timeout"),
    ('{"type": "a", "run_after": "tomorrow"}', "run_after"),
    ('{"type": "a", "run_after": "2030-01-01T00:00:00"}', "run_after"),
    ('{"type": "a", "run_after": "0001-01-01T00:00:00Z"}', "run_after"),
    ('{"type": "a", "run_after": "2030-01-01T00:00:00Z", "delay": "1s"}', "run_after"),
    ('{"type": "a", "retry": {}}', "retry"),
    ('{"type": "a", "retry": {"fixed": {}}}', "retry.fixed.delay"),
    ('{"type": "a", "tags": ["x", 1]}', "tags[1]"),
    ('{"type": "a", "headers": {"x": 1}}', "headers[...]"),
    ('{"type": "a", "headers": {"x": "' + "y" * 9000 + '"}}', "headers['x']"),
]


async def test_a_bad_body_is_refused_with_its_path(client: httpx.AsyncClient) -> None:
    found: list[tuple[str, str | None]] = []
    for body, _ in BAD_BODIES:
        answer = await client.post("/tasks", content=body.encode(), headers=JSON)
        assert answer.status_code == 400, (body, answer.text)
        assert reason_of(answer) in ("INVALID_REQUEST", "INVALID_OPTION", "INVALID_PAYLOAD")
        assert len(answer.content) < 2000
        found.append((body, answer.json().get("field")))

    assert found == BAD_BODIES


async def test_a_refusal_is_what_the_document_shows(client: httpx.AsyncClient) -> None:
    shown = DOCUMENT.read_text().partition("## Errors")[2].partition("```json\n")[2]

    answer = await client.post("/tasks", content=b'{"type": "a", "priority": 101}', headers=JSON)

    assert answer.json() == json.loads(shown.partition("```")[0])


async def test_a_queue_cannot_be_all_of_them(client: httpx.AsyncClient) -> None:
    answer = await client.post("/tasks", content=b'{"type": "a", "queue": "*"}', headers=JSON)

    assert answer.json()["detail"].endswith("not `*`, which stands for all queues.")


NO_JSON = [
    b'{"type": "\xff"}',
    b'{"type": "a", "payload": {"x": "\xc3\x28"}}',
    b'{"type": "\\ud800"}',
    b"\x00",
    b'{"type": "a\x00"}',
    b"[" * 200_000,
    b'{"type": "a", "payload": ' + b'{"a":' * 100_000,
    b'{"type": "a", "payload": {"a": ' + b"[" * 5000 + b"]" * 5000 + b"}}",
]


async def test_bytes_that_are_no_json_are_refused(client: httpx.AsyncClient) -> None:
    for body in NO_JSON:
        answer = await client.post("/tasks", content=body, headers=JSON)

        assert answer.status_code == 400, answer.text
        assert reason_of(answer) in ("INVALID_REQUEST", "INVALID_PAYLOAD")


TWICE = [
    ("/tasks", '{"type": "a", "type": "b"}'),
    ("/tasks", '{"type": "a", "retry": {"fixed": {"delay": "1s", "delay": "2s"}}}'),
    ("/tasks", '{"type": "a", "headers": {"x": "1", "x": "2"}}'),
    ("/tasks:batch", '{"tasks": [{"type": "a", "type": "b"}]}'),
    ("/tasks:cancel", '{"selection": {"ids": ["1"]}, "selection": {"ids": ["2"]}}'),
]


async def test_a_key_that_stands_twice_is_refused(client: httpx.AsyncClient) -> None:
    for path, body in TWICE:
        answer = await client.post(path, content=body, headers=JSON)

        assert answer.status_code == 400, body
        assert reason_of(answer) == "INVALID_REQUEST"
        assert "twice" in answer.json()["detail"]


OTHER_MEDIA: list[dict[str, str]] = [
    {},
    {"content-type": "text/plain"},
    {"content-type": "application/x-www-form-urlencoded"},
    {"content-type": "multipart/form-data; boundary=x"},
    {"content-type": "application/json; charset=latin-1"},
    {"content-type": "application/json; charset=utf-8; charset=latin-1"},
    {"content-type": "application/jsonp"},
    {**JSON, "content-encoding": "gzip"},
]


async def test_only_plain_json_is_taken(client: httpx.AsyncClient) -> None:
    for headers in OTHER_MEDIA:
        body = b'{"type": "a"}'
        if "content-encoding" in headers:
            body = gzip.compress(body)
        answer = await client.post("/tasks", content=body, headers=headers)

        assert answer.status_code == 415, headers
        assert reason_of(answer) == "UNSUPPORTED_MEDIA_TYPE"


OUR_MEDIA = [
    "application/json",
    "Application/JSON ; charset=UTF-8",
    'application/json;charset="utf-8"',
]


async def test_json_is_taken_however_its_type_is_written(client: httpx.AsyncClient) -> None:
    for media in OUR_MEDIA:
        answer = await client.post(
            "/tasks", content=b'{"type": "a"}', headers={"content-type": media}
        )

        assert answer.status_code == 201, media


ACCEPTED = [
    ("*/*", 200),
    ("application/*;q=0.1", 200),
    ("text/html, application/json", 200),
    ("text/html", 406),
    ("application/json;q=0", 406),
    ("application/xml, */*;q=0.0", 406),
]


async def test_who_does_not_accept_json_gets_406(client: httpx.AsyncClient) -> None:
    for accept, status in ACCEPTED:
        answer = await client.get("/queues", headers={"accept": accept})

        assert answer.status_code == status, accept
        if status == 406:
            assert reason_of(answer) == "NOT_ACCEPTABLE"


TAKEN = [
    ("DELETE", "/tasks", "GET, HEAD, OPTIONS, POST"),
    ("GET", "/tasks/5:cancel", "OPTIONS, POST"),
    ("HEAD", "/leases", "OPTIONS, POST"),
    ("PUT", "/tasks/5", "GET, HEAD, OPTIONS"),
    ("FOO", "/queues", "GET, HEAD, OPTIONS"),
]


async def test_what_an_address_takes_is_said(client: httpx.AsyncClient) -> None:
    for method, path, allow in TAKEN:
        refused = await client.request(method, path)
        asked = await client.request("OPTIONS", path)

        assert refused.status_code == 405
        assert refused.headers["allow"] == allow
        assert (asked.status_code, asked.headers["allow"]) == (204, allow)
        assert "access-control-allow-origin" not in asked.headers


async def test_head_answers_as_get_does_but_for_the_body(client: httpx.AsyncClient) -> None:
    got = await client.get("/queues")
    headed = await client.head("/queues")

    assert headed.status_code == 200
    assert headed.content == b""
    assert headed.headers["content-length"] == got.headers["content-length"]


NOWHERE = ["", "/", "/nope", "/tasks/", "/tasks/5/", "/tasks/5/6", "//tasks", "/tasks:nope"]


async def test_what_is_nowhere_is_404(
    root: Callable[[str], str], client: httpx.AsyncClient
) -> None:
    for path in NOWHERE:
        answer = await client.get(root(f"/api/v1{path}"))

        assert answer.status_code == 404, path
        assert reason_of(answer) == "NO_ROUTE"


NO_IDS = ["abc", "0", "-1", "1.0", "٣", "5%0A", "%00", "%2e%2e", "%ff", "9223372036854775808"]


async def test_what_is_no_id_is_refused(
    root: Callable[[str], str], client: httpx.AsyncClient
) -> None:
    for id in NO_IDS:
        answer = await client.get(root(f"/api/v1/tasks/{id}"))

        assert answer.status_code == 400, id
        assert (reason_of(answer), answer.json()["field"]) == ("INVALID_OPTION", "id")


async def test_a_task_that_is_not_there_is_404(client: httpx.AsyncClient) -> None:
    answers = [
        await client.get("/tasks/9223372036854775807"),
        await client.get("/tasks:find?queue=q&key=k"),
        await client.post("/tasks/77:cancel", json={}),
        await client.post("/tasks/77:requeue", json={}),
    ]

    assert [(a.status_code, reason_of(a)) for a in answers] == [(404, "NOT_FOUND")] * 4


BAD_QUERIES: list[tuple[str, str | None]] = [
    ("nope=1", "nope"),
    ("queue=a&queue=b", "queue"),
    ("state=ready", "state[0]"),
    ("page_size=0", "page_size"),
    ("page_size=1001", "page_size"),
    ("page_size=ten", "page_size"),
    ("page_size=null", "page_size"),
    ("page_size=" + "9" * 500, "page_size"),
    ("page_token=x", "page_token"),
    ("older_than=5", "older_than"),
    ("queue=%00", "queue"),
    ("queue=%ff", None),
    ("queue", None),
    ("&", None),
    ("=", ""),
    ("&".join("state=dead" for _ in range(101)), None),
]


async def test_a_bad_query_is_refused(
    root: Callable[[str], str], client: httpx.AsyncClient
) -> None:
    for query, field in BAD_QUERIES:
        answer = await client.get(root(f"/api/v1/tasks?{query}"))

        assert answer.status_code == 400, (query, answer.text)
        assert reason_of(answer) in ("INVALID_REQUEST", "INVALID_OPTION")
        assert (answer.json().get("field") or None) == (field or None), query


async def test_parameters_beside_a_body_are_refused(client: httpx.AsyncClient) -> None:
    answer = await client.post("/tasks?type=a", json={"type": "a"})

    assert (answer.status_code, reason_of(answer)) == (400, "INVALID_REQUEST")


async def test_a_lost_lease_is_409(client: httpx.AsyncClient) -> None:
    await client.post("/tasks", json={"type": "a"})
    [task] = (await client.post("/leases", json={"worker_id": "w", "wait": "5s"})).json()["tasks"]
    lease = task["lease"]
    first = await client.post("/leases:release", json={"lease": lease})

    again = await client.post("/leases:complete", json={"lease": lease})
    told = await client.post(
        "/leases:report", json={"outcomes": [{"lease": lease, "complete": {}}]}
    )
    beaten = await client.post("/leases:heartbeat", json={"leases": [lease, "nonsense"]})

    assert first.json() == {"answer": "requeued"}
    assert (again.status_code, reason_of(again)) == (409, "LEASE_LOST")
    assert told.json() == {"answers": [{"answer": "lost"}]}
    assert [beat["answer"] for beat in beaten.json()["beats"]] == ["lost", "invalid"]


async def test_a_report_of_nonsense_spoils_no_other(client: httpx.AsyncClient) -> None:
    await client.post("/tasks", json={"type": "a"})
    [task] = (await client.post("/leases", json={"worker_id": "w", "wait": "5s"})).json()["tasks"]
    outcomes: list[Any] = [
        {"lease": task["lease"]},
        {"lease": task["lease"], "complete": {}, "release": {}},
        {"lease": "nonsense", "complete": {}},
        {"lease": task["lease"], "snooze": {}},
        5,
        {"lease": task["lease"], "fail": {"error": {"message": "x\0y"}, "retry_after": "5s"}},
    ]

    answer = await client.post("/leases:report", json={"outcomes": outcomes})

    answers = answer.json()["answers"]
    assert [told["answer"] for told in answers] == [*["invalid"] * 5, "requeued"]
    assert answers[5]["retry_after"] == "5s"
    fields = [told["problem"].get("field") for told in answers[:5]]
    assert fields == ["outcome", "outcome", "lease", "snooze.delay", None]


async def test_a_body_beyond_the_limit_is_413(client: httpx.AsyncClient, service: Any) -> None:
    limit = service.settings.request_limit_bytes
    body = b'{"type": "a", "payload": {"x": "' + b"y" * limit + b'"}}'

    async def chunks() -> AsyncIterator[bytes]:
        for start in range(0, len(body), 1 << 20):
            yield body[start : start + (1 << 20)]

    known = await client.post("/tasks", content=body, headers=JSON)
    chunked = await client.post("/tasks", content=chunks(), headers=JSON)

    assert (known.status_code, reason_of(known)) == (413, "TOO_LARGE")
    assert (chunked.status_code, reason_of(chunked)) == (413, "TOO_LARGE")


async def test_a_payload_beyond_its_limit_is_refused_with_what_to_do(
    client: httpx.AsyncClient,
) -> None:
    body = json.dumps({"type": "a", "payload": {"x": "y" * 1_100_000}})

    answer = await client.post("/tasks", content=body, headers=JSON)

    assert (answer.status_code, reason_of(answer)) == (400, "INVALID_PAYLOAD")
    assert "reference" in answer.json()["detail"]


async def test_a_database_that_is_away_is_503_and_nothing_is_told_of_it(
    client: httpx.AsyncClient, connect: Callable[..., Any]
) -> None:
    observer = connect()
    observer.execute("alter schema wherry rename to elsewhere")

    answer = await client.get("/queues")

    observer.execute("alter schema elsewhere rename to wherry")
    assert answer.status_code == 503
    assert reason_of(answer) == "SCHEMA"
    assert answer.json()["id"]
    assert "elsewhere" not in answer.text


async def test_what_is_no_text_is_refused_with_the_form_it_should_have(
    client: httpx.AsyncClient,
) -> None:
    bodies: list[tuple[dict[str, Any], str]] = [
        ({"type": "a", "delay": 5}, "`30s`"),
        ({"type": "a", "retry": {"fixed": {"delay": 5}}}, "`30s`"),
        ({"type": "a", "run_after": 5}, "`2030-01-31T12:00:00Z`"),
    ]
    for body, form in bodies:
        answer = await client.post("/tasks", json=body)
        assert reason_of(answer) == "INVALID_REQUEST"
        assert "got `int`" in answer.json()["detail"]
        assert form in answer.json()["detail"]

    batch = await client.post("/tasks:batch", json={"tasks": [{"type": "a", "delay": 5}]})
    assert "`30s`" in batch.text


async def test_a_state_that_there_is_not_is_refused_with_those_that_there_are(
    client: httpx.AsyncClient,
) -> None:
    answer = await client.get("/tasks", params={"state": "running"})

    assert answer.json()["detail"] == (
        "Invalid enum value 'running'. There are queued, leased, succeeded, failed, dead, canceled"
    )
