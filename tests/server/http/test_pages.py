"""The document and its page: valid, complete, and nothing in it can run."""

from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import httpx
from jsonschema_rs import validator_for

from wherry.server.http.openapi import document, names_in
from wherry.server.http.operations import OPERATIONS
from wherry.server.http.pages import page


class Seen(HTMLParser):
    """What a browser would see."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            self.attributes.add(name)
            if name == "href":
                self.links.append(value or "")
            if name == "id":
                self.anchors.add(value or "")


def test_every_schema_is_one_and_every_reference_leads_somewhere() -> None:
    found = document()
    schemas = found["components"]["schemas"]

    assert set(names_in(found)) <= set(schemas)
    for name in schemas:
        reference = f"#/components/schemas/{name}"
        validator_for({"$ref": reference, "components": found["components"]})


def test_every_component_is_used() -> None:
    found = document()

    assert set(names_in(found)) == set(found["components"]["schemas"])


def test_no_component_is_named_by_a_module() -> None:
    schemas = document()["components"]["schemas"]

    assert not [name for name in schemas if "." in name]
    assert {"Canceled", "CancelAnswer", "Purged", "PurgeAnswer"} <= set(schemas)
    assert schemas["CancelAnswer"]["title"] == "CancelAnswer"


def test_every_operation_is_in_the_document() -> None:
    paths = document()["paths"]

    found = {(path, method.upper()) for path, methods in paths.items() for method in methods}
    assert found == {(operation.path, operation.method) for operation in OPERATIONS}


def test_the_page_has_every_operation_and_its_links_lead_somewhere() -> None:
    seen = Seen(page(document()))

    assert {operation.name for operation in OPERATIONS} <= seen.anchors
    inside = {link.removeprefix("#") for link in seen.links if link.startswith("#")}
    assert inside <= seen.anchors
    assert {link for link in seen.links if not link.startswith("#")} == {
        "docs.css",
        "openapi.json",
    }


def test_no_two_places_of_the_page_have_one_name() -> None:
    found = document()
    names = [operation.name for operation in OPERATIONS]

    assert not set(names) & set(found["components"]["schemas"])
    assert "<p>*" not in page(found)


def test_the_page_has_no_scripts_and_no_styles_of_its_own() -> None:
    seen = Seen(page(document()))

    assert not seen.tags & {"script", "style", "iframe", "object", "embed", "img", "form"}
    assert "style" not in seen.attributes
    assert not [name for name in seen.attributes if name.startswith("on")]


def test_whatever_stands_in_the_document_is_shown_as_text() -> None:
    evil = "`\"'><script>alert(1)</script><img src=x onerror=alert(2)>`"

    def poisoned(value: Any, key: str = "") -> Any:
        match value:
            case dict():
                return {name: poisoned(item, name) for name, item in value.items()}
            case list():
                return [poisoned(item, key) for item in value]
            case str() if key not in ("$ref", "type", "url"):
                return value + evil
            case _:
                return value

    found = poisoned(document())
    found["components"]["schemas"][evil] = {"enum": [evil], "properties": {evil: {"type": evil}}}
    found["paths"][f"/{evil}"] = found["paths"].pop("/server")

    seen = Seen(page(found))

    assert not seen.tags & {"script", "img"}
    assert not [name for name in seen.attributes if name.startswith("on")]


async def test_page_style_and_document_are_served(root: Callable[[str], str]) -> None:
    async with httpx.AsyncClient(trust_env=False) as client:
        shown = await client.get(root("/docs"), headers={"accept": "text/html"})
        style = await client.get(root("/docs.css"), headers={"accept": "text/css,*/*;q=0.1"})
        described = await client.get(root("/openapi.json"))

    assert shown.headers["content-type"] == "text/html; charset=utf-8"
    assert "style-src 'self'" in shown.headers["content-security-policy"]
    assert "script" not in shown.headers["content-security-policy"]
    assert style.headers["content-type"] == "text/css; charset=utf-8"
    assert described.json() == document()
    assert re.fullmatch(r"3\.1\.\d", described.json()["openapi"])
