"""SQL files keep the house's form: a header that is true, one statement, nothing said in vain.

A statement is looked at with its parts in their places, a part also as it stands in its file.
Each rule is first shown a statement that breaks it, so that we know it can fail.
"""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import fields
from itertools import takewhile
from pathlib import Path

import pytest

from wherry.domain.lease import Lease
from wherry.domain.task import Task
from wherry.transport.render import source

SOURCE = Path(__file__).resolve().parents[2] / "src" / "wherry"
FAMILIES = (
    *(
        "tasks",
        "leases",
        "queues",
        "schedules",
        "workers",
        "maintenance",
        "tokens",
        "audit",
        "flow",
    ),
    "doctor",
)
HEADER = ("takes", "returns", "locks", "index")
HEADER_OF_A_PART = ("needs", "gives")
# What stands there fewer times is read more easily where it is used.
FEWEST_USES = 3
# What a header may say instead of the columns.
TASK = [field.name for field in fields(Task) if field.name != "history"]
ROWS = {
    "nothing": [],
    "a Task": TASK,
    "a Task and has_more": [*TASK, "has_more"],
    "a Lease": [
        # The others are known from the request.
        name
        for name in inspect.signature(Lease).parameters
        if name not in ("deadline", "queue")
    ],
}
GOOD = """\
-- Count what waits in one queue; it's never "none".
-- takes:   queue text, since timestamptz (null: from
--          the beginning)
-- returns: how_many (0, if
--          none), at_once; never nothing
-- locks:   none
-- index:   live_ready
select count(*) as how_many,
       '{"at": "12:30"}'::json as "at: once"
  from wherry.live
 where live.queue = :queue
   and live.created_at > :since::timestamptz
"""

GOOD_PART = """\
-- What waits.
-- needs: nothing
-- gives: waiting (id)
waiting as (
    select live.id from wherry.live
)
"""

_PART = re.compile(r"^ *-- part: (\w+)", re.MULTILINE)
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
        if not line.startswith("--") or _PART.match(line):
            break
        if entry := re.fullmatch(r"-- (takes|returns|locks|index|needs|gives):\s*(.*)", line):
            word = entry[1]
            said[word] = entry[2]
        else:
            said[word] += line.removeprefix("--")
    return {word: what.strip() for word, what in said.items()}


def without_brackets(text: str) -> str:
    """Return *text* with whatever stands in brackets taken out."""
    while (less := re.sub(r"\([^()]*\)|\[[^][]*\]", " ", text)) != text:
        text = less
    return text


def columns_of(text: str) -> list[str]:
    """Return the names of the columns that a statement answers with."""
    code = _PIECE.sub(
        lambda piece: re.sub(r"\W+", "_", piece[0]).strip("_") if piece["quoted"] else " ", text
    )
    outside = without_brackets(code)
    writes = re.search(r"\b(insert into|update|delete from) wherry\b", outside)
    pattern = r"\breturning\b(.*)" if writes else r"\bselect\b(.*?)(?:\bfrom\b|\bunion\b|\Z)"
    found = re.search(pattern, outside, re.DOTALL)
    items = re.sub(r"::\w+( precision)?", "", found[1]).split(",") if found else []
    return [re.findall(r"\w+", item)[-1] for item in items]


def header_is_incomplete(text: str, *, words: tuple[str, ...] = HEADER) -> list[str]:
    said = header_of(text)
    missing = [word or "a sentence" for word in ("", *words) if not said.get(word)]
    if missing:
        return [f"its header lacks: {', '.join(missing)}"]
    in_order = [word for word in said if word]
    return [] if in_order == list(words) else [f"its header is out of order: {in_order}"]


def part_header_is_incomplete(text: str) -> list[str]:
    return header_is_incomplete(text, words=HEADER_OF_A_PART)


def part_in_a_part(text: str) -> list[str]:
    return [
        f"the part {name} inside a part: only statements have some" for name in _PART.findall(text)
    ]


def header_names_other_columns(text: str) -> list[str]:
    said = without_brackets(header_of(text).get("returns", "")).partition(";")[0].strip()
    named = ROWS.get(said, [name.strip() for name in said.split(",")])
    columns = columns_of(text)
    return [] if named == columns else [f"`returns` says {named}, it returns {columns}"]


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
    (header_names_other_columns, "-- returns: how_many", "-- returns: many"),
    (header_names_other_columns, "select count(*) as how_many,", "select"),
    (header_names_other_columns, "select count(*)", "select 1 as one, count(*)"),
    (header_names_other_columns, "select count(*)", "delete from wherry.live; select count(*)"),
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


RULES_OF_PARTS: list[tuple[Callable[[str], list[str]], str, str]] = [
    (part_header_is_incomplete, "-- needs: nothing\n", ""),
    (part_header_is_incomplete, "-- gives: waiting (id)\n", "-- returns: id\n"),
    (part_header_is_incomplete, "-- What waits.\n", ""),
    (part_in_a_part, "    select", "    -- part: other,\n    select"),
    (parameter_in_quotes, "live.id", "interval ':seconds s'"),
    (star, "live.id", "live.*"),
    (more_than_one_statement, "wherry.live\n", "wherry.live; select 1;\n"),
    (upper_case, "select", "SELECT"),
]


def files_in(folder: str) -> list[Path]:
    return sorted((SOURCE / "sql").glob(f"{folder}/*.sql"))


def statements() -> list[Path]:
    return sorted(set((SOURCE / "sql").rglob("*.sql")) - set(files_in("parts")))


def whole(path: Path) -> str:
    """Return a statement with its parts in their places, under its own header only."""
    header = takewhile(
        lambda line: line.startswith("--") and not _PART.match(line), path.read_text().splitlines()
    )
    lines = source(f"{path.parent.name}/{path.stem}").splitlines()
    return "\n".join([*header, *(line for line in lines if not line.lstrip().startswith("--"))])


def test_the_form_itself_is_without_complaint() -> None:
    assert [complaint for rule, _, _ in RULES for complaint in rule(GOOD)] == []
    assert [complaint for rule, _, _ in RULES_OF_PARTS for complaint in rule(GOOD_PART)] == []


@pytest.mark.parametrize(
    ("form", "rule", "good", "bad"),
    [(GOOD, *rule) for rule in RULES] + [(GOOD_PART, *rule) for rule in RULES_OF_PARTS],
)
def test_a_file_that_breaks_a_rule_would_be_noticed(
    form: str, rule: Callable[[str], list[str]], good: str, bad: str
) -> None:
    assert good in form

    assert rule(form.replace(good, bad, 1))


def test_statements_keep_every_rule() -> None:
    rules = dict.fromkeys(rule for rule, _, _ in RULES)

    complaints = [
        f"{path.relative_to(SOURCE)}: {complaint}"
        for path in statements()
        for rule in rules
        for complaint in rule(whole(path))
    ]

    assert complaints == []


def test_parts_keep_every_rule() -> None:
    rules = dict.fromkeys(rule for rule, _, _ in RULES_OF_PARTS)

    complaints = [
        f"{path.relative_to(SOURCE)}: {complaint}"
        for path in files_in("parts")
        for rule in rules
        for complaint in rule(path.read_text())
    ]

    assert complaints == []


def test_parts_are_used_and_often_enough_to_be_parts() -> None:
    uses = Counter(name for path in statements() for name in _PART.findall(path.read_text()))

    rare = {path.stem: uses[path.stem] for path in files_in("parts")}

    assert {name: n for name, n in rare.items() if n < FEWEST_USES} == {}
    assert set(uses) == set(rare)


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
