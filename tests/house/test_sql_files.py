"""SQL files keep the house's form: a header, one statement, no parameter where none can be.

Each rule is first shown a statement that breaks it, so that we know it can fail.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src" / "wherry"
FAMILIES = ("tasks", "leases", "queues", "schedules", "workers", "maintenance")
HEADER = ("takes", "returns", "locks", "index")
GOOD = """\
-- Count what waits in one queue; it's never "none".
-- takes:   queue text, since timestamptz (null: from
--          the beginning)
-- returns: how_many
-- locks:   none
-- index:   live_ready
select count(*) as how_many,
       '{"at": "12:30"}'::json as "at: once"
  from wherry.live
 where live.queue = :queue
   and live.created_at > :since::timestamptz
"""

_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]\w*)")
_PIECE = re.compile(
    r"""
      (?P<comment> --[^\n]* | /\*.*?\*/ )
    | (?P<literal> '(?:[^']|'')*' | \$(?P<tag>\w*)\$.*?\$(?P=tag)\$ )
    | (?P<quoted>  "(?:[^"]|"")*" )
    """,
    re.VERBOSE | re.DOTALL,
)


def code_of(text: str) -> str:
    """Return *text* with its comments, literals and quoted names blanked out."""
    return _PIECE.sub(" ", text)


def literals_of(text: str) -> list[str]:
    """Return the literals and quoted names of *text*, with their quotes."""
    return [piece[0] for piece in _PIECE.finditer(text) if not piece["comment"]]


def header_of(text: str) -> dict[str, str]:
    """Return what the header says, by its words; the sentence above them is under ""."""
    said: dict[str, str] = {"": ""}
    word = ""
    for line in text.splitlines():
        if not line.startswith("--"):
            break
        if entry := re.fullmatch(r"-- (takes|returns|locks|index):\s*(.*)", line):
            word = entry[1]
            said[word] = entry[2]
        else:
            said[word] += line.removeprefix("--")
    return {word: what.strip() for word, what in said.items()}


def header_is_incomplete(text: str) -> list[str]:
    said = header_of(text)
    missing = [word or "a sentence" for word in ("", *HEADER) if not said.get(word)]
    if missing:
        return [f"its header lacks: {', '.join(missing)}"]
    in_order = [word for word in said if word]
    return [] if in_order == list(HEADER) else [f"its header is out of order: {in_order}"]


def header_forgets_a_parameter(text: str) -> list[str]:
    said = re.findall(r"\w+", header_of(text).get("takes", ""))
    used = dict.fromkeys(_PARAMETER.findall(code_of(text)))
    return [f"`takes` does not name :{name}" for name in used if name not in said]


def parameter_in_quotes(text: str) -> list[str]:
    return [
        f"a parameter inside {literal} would be sent as it is written there"
        for literal in literals_of(text)
        if _PARAMETER.search(literal)
    ]


def star(text: str) -> list[str]:
    found = re.findall(
        r"(?:\b(?:select|returning|distinct|all)\s+|,\s*)(?:\w+\.)*\*", code_of(text), re.IGNORECASE
    )
    return [f"`{' '.join(what.split())}`: name the columns" for what in found]


def more_than_one_statement(text: str) -> list[str]:
    return ["more than one statement"] if ";" in code_of(text).rstrip().removesuffix(";") else []


def upper_case(text: str) -> list[str]:
    return [f"{word}: lower case" for word in re.findall(r"\b\w*[A-Z]\w*", code_of(text))]


RULES: list[tuple[Callable[[str], list[str]], str, str]] = [
    (header_is_incomplete, "-- locks:   none\n", ""),
    (header_is_incomplete, "-- locks:   none\n", "-- locks:\n"),
    (header_is_incomplete, '-- Count what waits in one queue; it\'s never "none".\n', ""),
    (header_is_incomplete, "-- locks:   none\n-- index:   live_ready", "-- index: a\n-- locks: b"),
    (header_forgets_a_parameter, "-- takes:   queue text, since", "-- takes:   queue text, from"),
    (parameter_in_quotes, ":since::timestamptz", "now() - interval ':since s'"),
    (parameter_in_quotes, ":since::timestamptz", "$$:since$$"),
    (parameter_in_quotes, '"at: once"', '":since"'),
    (star, "count(*) as how_many", "*"),
    (star, "count(*) as how_many", "queue, live.*"),
    (star, ":since::timestamptz", ":since\nreturning  *"),
    (more_than_one_statement, ":since::timestamptz", ":since; select 2;"),
    (upper_case, "select count", "SELECT count"),
]


def statements() -> list[Path]:
    return sorted((SOURCE / "sql").rglob("*.sql"))


def test_the_form_itself_is_without_complaint() -> None:
    assert [complaint for rule, _, _ in RULES for complaint in rule(GOOD)] == []


@pytest.mark.parametrize(("rule", "good", "bad"), RULES)
def test_a_statement_that_breaks_a_rule_would_be_noticed(
    rule: Callable[[str], list[str]], good: str, bad: str
) -> None:
    assert good in GOOD

    assert rule(GOOD.replace(good, bad))


def test_statements_keep_every_rule() -> None:
    rules = dict.fromkeys(rule for rule, _, _ in RULES)

    complaints = [
        f"{path.relative_to(SOURCE)}: {complaint}"
        for path in statements()
        for rule in rules
        for complaint in rule(path.read_text())
    ]

    assert complaints == []


def test_statements_stand_in_the_folder_of_their_family() -> None:
    strays = [
        str(path.relative_to(SOURCE))
        for path in statements()
        if path.parent.parent != SOURCE / "sql"
        or path.parent.name not in FAMILIES
        or not re.fullmatch(r"[a-z]+(_[a-z]+)*\.sql", path.name)
    ]

    assert strays == []


def test_migrations_are_numbered_and_say_what_they_lock() -> None:
    # Fails for `2_more.sql`, for a gap in the numbers, and for a file without a `-- Locks:` line.
    migrations = sorted((SOURCE / "migrations").glob("*.sql"))

    numbers = [path.name.split("_")[0] for path in migrations]
    silent = [
        path.name
        for path in migrations
        if not re.search(r"^-- locks?: *\S", path.read_text(), re.IGNORECASE | re.MULTILINE)
    ]

    assert numbers == [f"{number:04}" for number in range(1, len(migrations) + 1)]
    assert silent == []
