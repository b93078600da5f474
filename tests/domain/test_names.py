"""What may become part of SQL text, and what stays as it was written."""

from __future__ import annotations

import pytest

from wherry.domain.names import quote_body, quote_identifier, quote_literal, render_schema
from wherry.errors import ConfigError

HOSTILE = "a\"; drop table t; --'$$%s :name\\ ü"


@pytest.mark.parametrize(
    "written, rendered",
    [
        ("select 1 from wherry.live", 'select 1 from "s".live'),
        ("select wherry.now()", 'select "s".now()'),
        ('select 1 from wherry."live"', 'select 1 from "s"."live"'),
        ("(wherry.live)::wherry.t", '("s".live)::"s".t'),
        ("as $$ select wherry.now() $$", 'as $$ select "s".now() $$'),
        ("as $f$ select $$wherry.a$$, wherry.b $f$", 'as $f$ select $$"s".a$$, "s".b $f$'),
        ("select $1 + wherry.f($2)", 'select $1 + "s".f($2)'),
        ("a /* x */ wherry.b -- c\nwherry.d", 'a /* x */ "s".b -- c\n"s".d'),
        ("select 'it''s' || wherry.f()", "select 'it''s' || \"s\".f()"),
        (r"select E'it\'s' || wherry.f()", "select E'it\\'s' || \"s\".f()"),
        (r"select '\' || wherry.f()", "select '\\' || \"s\".f()"),
        ("nextval('wherry.task_id'::regclass)", "nextval('\"s\".task_id'::regclass)"),
        ("$$it's$$ wherry.a 'b'", "$$it's$$ \"s\".a 'b'"),
    ],
)
def test_the_qualifier_is_rendered_wherever_it_is_code(written: str, rendered: str) -> None:
    assert render_schema(written, "s") == rendered


@pytest.mark.parametrize(
    "text",
    [
        "select 'wherry.live'",
        "select 'it''s wherry.live'",
        r"select E'it\'s wherry.live'",
        'select "wherry.live"',
        'select "a""wherry.live"',
        "-- wherry.live",
        "/* wherry.live */",
        "/* /* */ wherry.live */",
        "select mywherry.live",
        "select other.wherry.live",
        "select wherry",
        "comment on schema wherry is 'x'",
        "select wherry.*",
        "select 'wherry.task_id'::text",
        "select 'a wherry.task_id'::regclass",
        "select 'never closed wherry.live",
        '"never closed wherry.live',
        "/* never closed wherry.live",
        "as $$ select 'wherry.live' $$",
    ],
)
def test_text_that_is_no_qualifier_stays_as_it_was_written(text: str) -> None:
    assert render_schema(text, "s") == text


def test_a_hostile_schema_name_stays_one_identifier() -> None:
    rendered = render_schema("select wherry.now()", HOSTILE)

    assert rendered == "select " + '"' + HOSTILE.replace('"', '""') + '".now()'


def test_a_schema_name_cannot_close_the_function_body_it_stands_in() -> None:
    rendered = render_schema("as $$ select wherry.now() $$;", "x$$; drop table t; --")

    assert rendered == 'as $wherry_1$ select "x$$; drop table t; --".now() $wherry_1$;'


def test_a_hostile_schema_name_stays_inside_a_regclass_literal() -> None:
    rendered = render_schema("as $$ nextval('wherry.task_id'::regclass) $$", "it's $$")

    assert rendered == "as $wherry_1$ nextval('\"it''s $$\".task_id'::regclass) $wherry_1$"


def test_a_body_gets_a_tag_that_it_does_not_hold_nor_make_with_its_last_sign() -> None:
    assert quote_body("select 1") == "$$select 1$$"
    assert quote_body("costs 1$") == "$wherry_1$costs 1$$wherry_1$"
    assert quote_body("$$ $wherry_1$") == "$wherry_2$$$ $wherry_1$$wherry_2$"


@pytest.mark.parametrize(
    "schema, complaint",
    [("", "empty"), ("a\0b", "NUL"), ("ü" * 32, "64 bytes"), ("\ud800", "not valid unicode")],
)
def test_a_schema_name_that_postgresql_cannot_keep_is_refused(schema: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        render_schema("select wherry.now()", schema)


def test_a_schema_name_of_exactly_the_longest_length_works() -> None:
    assert render_schema("wherry.a", "ü" * 31 + "x") == '"' + "ü" * 31 + 'x".a'


def test_identifiers_and_literals_are_quoted() -> None:
    assert quote_identifier('a"b') == '"a""b"'
    assert quote_literal("it's") == "'it''s'"
    assert quote_literal("a\\'b") == " E'a\\\\''b'"


@pytest.mark.parametrize("quote", [quote_identifier, quote_literal])
def test_nul_cannot_be_quoted(quote: object) -> None:
    assert callable(quote)

    with pytest.raises(ValueError, match="NUL"):
        quote("a\0b")
