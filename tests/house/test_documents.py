"""What the documents say in tables is so in the code, and their links lead somewhere.

A table is found by the comment above it, such as `<!-- options -->`. Whether the programs in the
documents work is tested in tests/e2e/test_docs.py, on a database.
"""

from __future__ import annotations

import inspect
import re
import tomllib
from collections import defaultdict
from dataclasses import fields
from pathlib import Path

import pytest

from tests.house.test_public_names import errors_in
from wherry import Additive, Fixed, FullJitter
from wherry.cli import main
from wherry.domain import options
from wherry.domain.options import Options
from wherry.domain.retry import RetryPolicy, delay
from wherry.tasks.task import TaskType
from wherry.transport.render import source

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "wherry"
DECISIONS = sorted((ROOT / "docs" / "adr").glob("*.md"))
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
LONGEST_DECISION_LINES = 60

_LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(#[^)\s]*)?\)")
_WRITE = re.compile(r"(insert into|update|delete from) wherry\.(\w+)")


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def table(page: str, mark: str) -> list[list[str]]:
    """Return the cells of the table below `<!-- mark -->`, without its head."""
    text = (ROOT / page).read_text()
    _, found, below = text.partition(f"<!-- {mark} -->\n")
    assert found, f"{page} has no table that is marked {mark}"
    lines = below.partition("\n\n")[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def anchors_of(text: str) -> set[str]:
    """Return the anchors of a page's headings, as hosts of repositories make them."""
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title).strip().lower().replace(" ", "-") for title in titles}


def broken_links(page: Path) -> list[str]:
    broken: list[str] = []
    for target, anchor in _LINK.findall(page.read_text()):
        there = (page.parent / target).resolve() if target else page
        if not there.exists():
            broken.append(f"{target}: not there")
        elif anchor and anchor[1:] not in anchors_of(there.read_text()):
            broken.append(f"{target}{anchor}: no such heading")
    return broken


def writes_in_sql() -> dict[str, dict[str, set[str]]]:
    """Return which files insert, update and delete in which table."""
    writes: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    texts = {path.stem: path.read_text() for path in SOURCE.glob("migrations/*.sql")}
    for path in SOURCE.glob("sql/*/*.sql"):
        if path.parent.name != "parts":
            texts[path.stem] = source(f"{path.parent.name}/{path.stem}")
    for stem, text in texts.items():
        for verb, name in _WRITE.findall(re.sub(r"--.*", "", text)):
            writes[name][verb].add(stem)
    return writes


def test_a_broken_link_would_be_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A title, `so`\n[a](#a-title-so) [b](#b) [c](no.md) [d](page.md#a-title-so)")

    assert broken_links(page) == ["#b: no such heading", "no.md: not there"]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    assert broken_links(page) == []


def test_the_index_names_every_document() -> None:
    index = (ROOT / "docs" / "README.md").read_text()

    documents = {
        path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")
    }
    assert documents - {"README.md"} - set(re.findall(r"\]\((.*?)\)", index)) == set()


def test_decisions_are_numbered_and_say_what_they_cost() -> None:
    # Numbers are given out before pages are written, so that one may be missing for a while.
    numbers = [int(path.name.partition("-")[0]) for path in DECISIONS]
    assert len(set(numbers)) == len(numbers)
    for number, path in zip(numbers, DECISIONS, strict=True):
        text = path.read_text()

        assert path.name.startswith(f"{number:04}-")
        assert text.startswith(f"# {number}. ")
        assert len(text.splitlines()) <= LONGEST_DECISION_LINES, path.name
        for part in ("Context", "Decision", "Turned down", "Cost"):
            assert f"\n## {part}\n" in text, f"{path.name}: {part}"


def test_every_option_stands_in_the_reference_and_no_other() -> None:
    rows = table("docs/reference/options.md", "options")
    said = [cells[0].strip("`") for cells in rows]

    of_a_call = set(inspect.signature(TaskType.using).parameters) - {"self", "options"}
    assert sorted(said) == sorted(options.EnqueueOptions.__optional_keys__ | of_a_call)


def test_options_are_the_same_to_a_type_checker_and_to_the_library() -> None:
    assert {each.name for each in fields(Options)} == options.EnqueueOptions.__optional_keys__


@pytest.mark.parametrize(
    ("option", "limit"),
    [
        ("queue", options.LONGEST_NAME_BYTES),
        ("key", options.LONGEST_KEY_BYTES),
        ("priority", options.LOWEST_PRIORITY),
        ("priority", options.HIGHEST_PRIORITY),
        ("max_attempts", options.MOST_ATTEMPTS),
        ("tags", options.MOST_TAGS),
        ("tags", options.LONGEST_TAG_BYTES),
        ("headers", options.HEADERS_LIMIT_BYTES // 1024),
    ],
)
def test_an_option_has_the_limit_that_the_reference_says(option: str, limit: int) -> None:
    rows = table("docs/reference/options.md", "options")
    [takes] = [cells[1] for cells in rows if cells[0] == f"`{option}`"]

    assert re.search(rf"(?<!\d){limit:,}(?!,?\d)", takes)


def test_delays_are_those_of_the_policies() -> None:
    rows = table("docs/reference/options.md", "delays")

    policies: tuple[RetryPolicy, ...] = (FullJitter(), Additive(), Fixed(30))
    assert len(rows) > 5
    for made, *said in rows:
        attempts = int(made.split()[0])
        for policy, text in zip(policies, said, strict=True):
            least, most = (
                delay(policy, attempts=attempts, random=drawn).total_seconds()
                for drawn in (float, lambda: 1.0)
            )
            assert text == (f"{least:g} to {most:g}" if most > least else f"{least:g}")


def test_every_error_has_a_row_in_the_reference() -> None:
    reference = (ROOT / "docs" / "reference" / "errors.md").read_text()
    rows = re.findall(r"^\| `(\w+)", reference, re.MULTILINE)
    errors = errors_in((SOURCE / "errors.py").read_text())
    errors += errors_in((SOURCE / "signals.py").read_text())

    # The root of them all is what the page begins with.
    assert sorted(rows) == sorted(set(errors) - {"WherryError"})


def test_the_readme_names_every_verb_of_the_command_line() -> None:
    said = {}
    for command, does in table("README.md", "verbs"):
        verb = command.strip("`").removeprefix("wherry ")
        said[verb] = sorted(re.findall(r"`(\w+)`", does))

    there = {
        verb: sorted(getattr(command, "commands", {})) for verb, command in main.commands.items()
    }
    assert said == there


def test_the_drawing_of_the_layers_is_the_contract() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    drawing = text.partition("<!-- layers -->\n```\n")[2].partition("```")[0]
    drawn = [re.findall(r"\w+", line[:28]) for line in drawing.splitlines()]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    [contract] = project["tool"]["importlinter"]["contracts"]
    held = [re.findall(r"\w+", layer) for layer in contract["layers"]]

    there = [[name for name in names if has_module(name)] for names in held]
    assert [sorted(names) for names in drawn] == [sorted(names) for names in there if names]


def has_module(name: str) -> bool:
    return any((SOURCE / place).exists() for place in (f"{name}/__init__.py", f"{name}.py"))


def test_every_table_stands_in_the_architecture() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    part = text.partition("\n## Tables\n")[2].partition("\n## ")[0]
    made = {"migration"}
    for path in SOURCE.glob("migrations/*.sql"):
        made |= set(re.findall(r"create table wherry\.(\w+)", path.read_text()))

    assert set(re.findall(r"^\| `(\w+)`", part, re.MULTILINE)) == made


def test_who_may_write_what_is_what_the_statements_do() -> None:
    said = {
        row[0].strip("`"): {
            verb: set(re.findall(r"`(\w+)`", cell))
            for verb, cell in zip(("insert into", "update", "delete from"), row[1:], strict=True)
            if cell
        }
        for row in table("ARCHITECTURE.md", "writes")
    }

    assert said == {
        name: dict(verbs) for name, verbs in writes_in_sql().items() if name != "settings"
    }
