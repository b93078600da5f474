"""Puts any schema name into SQL text that was written for the schema `wherry`.

Only the qualifier `wherry.` is replaced, where it is code: never inside comments, string literals
or quoted identifiers, but always inside `$$ … $$`, which is where function bodies live. The one
literal that is code is a relation's name cast in place: `'wherry.position'::regclass`. A bare
`wherry` (as in `comment on schema wherry`) stays as it is; SQL that needs it cannot be rendered.
"""

from __future__ import annotations

import re

from wherry.errors import ConfigError

LONGEST_IDENTIFIER_BYTES = 63

# In the order in which PostgreSQL's own scanner tries them. An unfinished literal or comment runs
# to the end of the text, so that nothing behind it is taken for code.
_TOKEN = re.compile(
    r"""
    (?P<regclass>'wherry\.(?P<relation>[a-z_]+)'(?=::regclass))
    | (?P<kept>
        --[^\n]*
      | (?<![\w$])[eE]'(?:[^'\\]|\\.|'')*(?:'|\Z)
      | '(?:[^']|'')*(?:'|\Z)
      | "(?:[^"]|"")*(?:"|\Z)
    )
    | (?P<comment>/\*)
    | (?P<dollar>(?<![\w$])\$(?:[^\W\d]\w*)?\$)
    | (?P<qualifier>(?<![\w$.])wherry\.(?=[^\W\d]|"))
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_EDGE = re.compile(r"/\*|\*/")


def check_schema(schema: object) -> str:
    """Return *schema* if PostgreSQL can keep it whole, else raise ConfigError.

    PostgreSQL cuts longer names without an error, and then two schemas could be one.
    """
    if not isinstance(schema, str):
        raise ConfigError(f"the schema name must be a string, not {type(schema).__name__}")
    if not schema:
        raise ConfigError("the schema name is empty: give it at least one character")
    if "\0" in schema:
        raise ConfigError(f"the schema name {schema!r} holds a NUL, which PostgreSQL cannot store")
    try:
        length_bytes = len(schema.encode())
    except UnicodeEncodeError:
        raise ConfigError(f"the schema name {schema!r} is not valid unicode") from None
    if length_bytes > LONGEST_IDENTIFIER_BYTES:
        raise ConfigError(
            f"the schema name {schema!r} is {length_bytes} bytes long;"
            f" PostgreSQL keeps {LONGEST_IDENTIFIER_BYTES}: shorten it"
        )
    return schema


def quote_identifier(name: str) -> str:
    """Return *name* as a quoted identifier, safe whatever it holds but NUL."""
    if "\0" in name:
        raise ValueError(f"the name {name!r} holds a NUL, which PostgreSQL cannot store")
    return '"' + name.replace('"', '""') + '"'


def quote_literal(text: str) -> str:
    """Return *text* as a string literal, for scripts that people run; statements bind theirs.

    It is read the same under either setting of standard_conforming_strings.
    """
    if "\0" in text:
        raise ValueError(f"the text {text!r} holds a NUL, which PostgreSQL cannot store")
    quoted = "'" + text.replace("'", "''") + "'"
    return " E" + quoted.replace("\\", "\\\\") if "\\" in text else quoted


def quote_body(body: str, *, tag: str = "$$") -> str:
    """Return *body* between dollar quotes that nothing inside it can close."""
    number = 0
    while (body + tag).index(tag) != len(body):
        number += 1
        tag = f"$wherry_{number}$"
    return f"{tag}{body}{tag}"


def render_schema(sql: str, schema: str) -> str:
    """Return *sql* with each qualifier `wherry.` naming *schema* instead, quoted.

    A `%` or `:` in the schema's name stays single: whoever sends the text with a driver's
    parameters escapes for that driver. Raises ConfigError for a name PostgreSQL cannot keep.
    """
    return _render(sql, quote_identifier(check_schema(schema)) + ".")


def _render(sql: str, qualifier: str) -> str:
    parts: list[str] = []
    done = 0
    while found := _TOKEN.search(sql, done):
        parts.append(sql[done : found.start()])
        if found["regclass"]:
            parts.append(quote_literal(qualifier + found["relation"]).lstrip())
            done = found.end()
        elif found["qualifier"]:
            parts.append(qualifier)
            done = found.end()
        elif tag := found["dollar"]:
            closing = sql.find(tag, found.end())
            end = len(sql) if closing < 0 else closing
            body = _render(sql[found.end() : end], qualifier)
            # The schema's name may hold the very tag that closes this body.
            parts.append(tag + body if closing < 0 else quote_body(body, tag=tag))
            done = len(sql) if closing < 0 else closing + len(tag)
        else:
            done = _end_of_comment(sql, found.end()) if found["comment"] else found.end()
            parts.append(sql[found.start() : done])
    return "".join(parts) + sql[done:]


def _end_of_comment(sql: str, start: int) -> int:
    """Return where the comment that opened before *start* ends; comments nest in PostgreSQL."""
    depth = 1
    for edge in _COMMENT_EDGE.finditer(sql, start):
        depth += 1 if edge[0] == "/*" else -1
        if depth == 0:
            return edge.end()
    return len(sql)
