"""What pages about tasks show is what was stored, and none of it is an element of theirs."""

from __future__ import annotations

import json
import re

import pytest

import wherry
from tests.pg.support import Session
from tests.server.dashboard.conftest import Browse
from tests.server.dashboard.looked import Element, looked
from wherry.commands.audit import Actor, audited
from wherry.commands.queues import PauseType
from wherry.commands.tasks import CancelTasks
from wherry.domain.failure import Failure

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "</script><script>alert(1)</script>",
    "</textarea></title><svg/onload=alert(1)>",
    "javascript:alert(1)",
    "\x1b[31mred\x1b[0m \x07\x08",
    "a\rb\u2028c\u2029d\x85e",
    "\u202eright to left\u202c",
    "{{ 7*7 }} {% raw %} ${7*7} <%= 7 %>",
    "&lt;b&gt; &#0; &amp;",
    "\ufffe\u200b\x7f",
    "ü" * 127,
)
# All that a page of ours is made of.
TAGS = frozenset(
    [
        *("html", "head", "meta", "title", "link", "script", "body", "a", "div", "header", "nav"),
        *("ul", "li", "span", "svg", "path", "rect", "g", "text", "button", "form", "input"),
        *("fieldset", "legend", "main", "h1", "h2", "h3", "p", "table", "thead", "tr", "th"),
        *("tbody", "td", "dl", "dt", "dd", "time", "bdi", "pre", "code", "details", "summary"),
        *("section", "aside", "ol", "strong", "small", "dialog", "kbd", "label", "select"),
        *("option", "datalist", "hr", "blockquote", "progress", "textarea"),
        *("figure", "figcaption", "i"),
    ]
)


def must_be_ours(page: Element) -> None:
    """Fail if anything in a page runs, or leads away."""
    for each in page.all[1:]:
        assert each.tag in TAGS
        assert not [name for name in each.attributes if name.startswith("on") or name == "style"]
        for name in ("href", "src", "action", "formaction"):
            target = each.attributes.get(name, "")
            assert not target.lower().strip().startswith(("javascript:", "data:", "//", "http"))
    for script in page.find("script"):
        assert script.attributes["src"].startswith("static/")
        assert script.text == ""


@pytest.mark.parametrize("text", HOSTILE)
async def test_a_hostile_text_is_shown_as_it_was_stored(
    browse: Browse, session: Session, app: wherry.App, text: str
) -> None:
    """SEC-01."""
    # A name holds no control character: that is refused at the door.
    name = re.sub("[\x00-\x1f\x7f-\x9f]", "", text)
    options = {"queue": name, "key": name, "tags": [name], "headers": {name: name}}
    id = session.enqueue(name, {text: [text]}, max_attempts=1, **options)
    failure = Failure(text[:100], text, text)
    session.fail(session.lease_one(queue=name, worker=text), failure=failure)
    by = Actor(text, text, text)
    other = session.enqueue(name, {text: text}, queue=name)
    await app.acarry(audited(CancelTasks((other,), text), by), call="cancel")
    await app.acarry(audited(PauseType(name, name, text, text), by), call="pause_type")
    client = await browse()

    task = looked((await client.get("task", params={"id": id})).text)
    listed = looked((await client.get("tasks", params={"queue": name, "type": name})).text)
    audit = looked((await client.get("audit")).text)
    asked = looked((await client.get("tasks-requeue", params={"queue": name})).text)
    one = looked((await client.get("task-requeue", params={"id": id})).text)

    paused = looked((await client.get("queues")).text)
    queue = looked((await client.get("queue", params={"name": name})).text)
    resume = looked((await client.get("resume-type", params={"type": name, "queue": name})).text)

    for page in (task, listed, audit, asked, one, paused, queue, resume):
        must_be_ours(page)
    assert task.at("timeline").find("pre")[0].text == text
    assert text in task.at("timeline").text
    assert json.loads(task.at("payload-text").text) == {text: [text]}
    assert json.loads(task.at("headers-text").text) == {name: name}
    facts = [each.text for each in task.at("facts").find("bdi")]
    assert facts[:2] == [name, name]
    assert facts.count(name) >= 4
    assert name in [each.text for each in listed.at(f"task-{id}").find("bdi")]
    assert [each.text for each in audit.find("blockquote")] == [text, text]
    assert text in [each.text for each in paused.at("paused-types").find("bdi")]
    assert name in queue.at("paused-types").text
    assert f"Because{text}" in resume.at("question").text
    assert text in [each.text for each in audit.find("bdi")]
    assert f"Queue{name}" in asked.at("question").text
