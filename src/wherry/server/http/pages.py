"""The documentation page, written from the OpenAPI document: no scripts, nothing from elsewhere.

Everything that is put into it goes through `html.escape`, also what we wrote ourselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from html import escape
from typing import Any, Final

from wherry.server.http.openapi import names_in

STYLE: Final = """\
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
code { font-family: ui-monospace, monospace; font-size: .9em; overflow-wrap: anywhere; }
h2 { border-top: 1px solid #8884; padding-top: 1rem; }
h2 code { font-size: 1em; }
table { border-collapse: collapse; width: 100%; margin: .5rem 0 1rem; }
th, td { text-align: left; vertical-align: top; padding: .25rem .75rem .25rem 0; }
tr + tr { border-top: 1px solid #8884; }
nav ul { columns: 2; padding-left: 1rem; }
.must { font-weight: 600; }
"""
_CODE: Final = re.compile(r"`([^`]+)`")


def page(document: Mapping[str, Any]) -> str:
    """Return the page for *document*."""
    info = document["info"]
    operations = [
        (path, method, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    links = "".join(
        f'<li><a href="#{_anchor(operation["operationId"])}">{escape(operation["operationId"])}</a>'
        for _, _, operation in operations
    )
    schemas = document["components"]["schemas"]
    prefix = "/" + str(document["servers"][0]["url"])
    body = "".join(
        [
            f"<h1>{escape(info['title'])} {escape(info['version'])}</h1>",
            *(f"<p>{_text(part)}</p>" for part in _paragraphs(info["description"])),
            '<p>For programs: <a href="openapi.json">openapi.json</a>.</p>',
            f"<nav><ul>{links}</ul></nav>",
            *(_operation(prefix + path, method, found) for path, method, found in operations),
            "<h1>Bodies and answers</h1>",
            *(_kind(name, schemas[name]) for name in sorted(schemas)),
        ]
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{escape(info['title'])}: HTTP</title>"
        f'<link rel="stylesheet" href="docs.css"></head><body>{body}</body></html>\n'
    )


def _paragraphs(text: str) -> list[str]:
    return [part.strip() for part in re.split(r"\n\n(?:\* )?|\n\* ", text) if part.strip()]


def _operation(path: str, method: str, operation: Mapping[str, Any]) -> str:
    name = operation["operationId"]
    address = f" <code>{escape(method.upper())} {escape(path)}</code>"
    parts = [
        f'<h2 id="{_anchor(name)}">{escape(name)}:{address}</h2>',
        f"<p>{_text(operation['summary'])}</p>",
    ]
    if operation["parameters"]:
        rows = (
            _row(p["name"], p["schema"], p.get("description", ""), must=bool(p["required"]))
            for p in operation["parameters"]
        )
        parts.append(f"<table>{''.join(rows)}</table>")
    body = operation.get("requestBody")
    if body is not None:
        parts.append(f"<p>Body: {_links(body['content'])}</p>")
    rows = (
        f"<tr><td>{escape(status)}<td>{_text(answer['description'])}"
        f"<td>{_links(answer.get('content', {}))}"
        for status, answer in operation["responses"].items()
    )
    parts.append(f"<table>{''.join(rows)}</table>")
    return "".join(parts)


def _kind(name: str, schema: Mapping[str, Any]) -> str:
    parts = [f'<h2 id="{_anchor(name)}">{escape(name)}</h2>']
    if schema.get("description"):
        parts.append(f"<p>{_text(schema['description'])}</p>")
    if "enum" in schema:
        values = ", ".join(f"<code>{escape(str(value))}</code>" for value in schema["enum"])
        parts.append(f"<p>One of {values}.</p>")
    required = schema.get("required", [])
    rows = (
        _row(field, found, _description(found), must=field in required)
        for field, found in schema.get("properties", {}).items()
    )
    parts.append(f"<table>{''.join(rows)}</table>")
    return "".join(parts)


def _row(name: str, schema: Mapping[str, Any], description: str, *, must: bool) -> str:
    said = f'<code class="must">{escape(name)}</code>' if must else f"<code>{escape(name)}</code>"
    return f"<tr><td>{said}<td>{_shape(schema)}<td>{_text(description)}"


def _description(schema: Mapping[str, Any]) -> str:
    kinds = [schema, *schema.get("anyOf", ())]
    return next((kind["description"] for kind in kinds if kind.get("description")), "")


def _shape(schema: Mapping[str, Any]) -> str:
    """Return what a value looks like, in a word or two."""
    if "$ref" in schema:
        return _link(schema["$ref"].rpartition("/")[2])
    if "anyOf" in schema:
        kinds = [kind for kind in schema["anyOf"] if kind.get("type") != "null"]
        return " or ".join(_shape(kind) for kind in kinds)
    if schema.get("type") == "array":
        return f"list of {_shape(schema['items'])}"
    if schema.get("format"):
        return escape(str(schema["format"]))
    bounds = [
        f"{words} {schema[name]}"
        for name, words in (("minimum", "from"), ("maximum", "to"))
        if name in schema
    ]
    return escape(" ".join([str(schema.get("type", "any JSON")), *bounds]))


def _links(content: Mapping[str, Any]) -> str:
    names: Iterable[str] = dict.fromkeys(
        name for kind in content.values() for name in names_in(kind)
    )
    return ", ".join(_link(name) for name in names)


def _link(name: str) -> str:
    return f'<a href="#{_anchor(name)}">{escape(name)}</a>'


def _anchor(name: str) -> str:
    return escape(re.sub(r"[^A-Za-z0-9_-]", "-", name))


def _text(text: str) -> str:
    return _CODE.sub(r"<code>\1</code>", escape(text))
