"""The table of handed cases, tests/cases.md, says the truth about the tests.

A row's test must be there and name the case in its docstring, and the other way round: who renames
a test, or shows a case, changes the table in the same commit. A case without a test needs a line of
our code as its reason, which must still stand there; or it is open, and says whose work it is.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "tests" / "cases.md"
WHY_NOT = "why not"
# Nothing shows it yet: the note says what is missing, and the issue whose work it is.
OPEN = "open"

# Every handed case.
HANDED = {
    "API": "01 04 05 06",
    "CAN": "01 02 03 06 07",
    "CLI": "01 04 06 07 08",
    "CRON": "01 02 04 06 07 09 10 11 14 15 17",
    "DB": "01 03 05 06 08 09 10 12 15 16 17",
    "DBL": "01 02 04 06 07 08 09 12 13 14 15 17",
    "DEP": "01 03 06 07 08",
    "HND": "02 03 05 06 07 08 09 11 13",
    "IDM": "03 04 06 07 08 09 10 12",
    "LN": "01 02 03 04 06 08 10",
    "LOST": "03 05 06 08 09 10 12 13 14",
    "MIG": "02 03 07 09 10 11 12 13",
    "OBS": "02 03 04 05",
    "PAY": "02 03 04 05 06 08 09 11 15 16 17",
    "PGB": "01 03 04",
    "PRI": "04 06 07 08 09 10",
    "RET": "02 04 06 07 08 09",
    "RUN": "01 05 06 07 08 10",
    "SCL": "01 02 03 05 08 09",
    "SEC": "01 02 04 06",
    "SHUT": "01 02 07 08 10 11 12 13",
    "TXN": "02 03 05 06 08 10",
}

_CASE = re.compile(rf"\b(?:{'|'.join(HANDED)})-\d\d\b")
_TEST = re.compile(r"(?:(tests/[\w/]+\.py)(?:::)?)?(test_\w+)?")
_OWNER = re.compile(r"\bissue \d+\b")
_QUOTED = re.compile(r"`([^`]+)` [^`]*? in (src/[\w/.]+)")

Tests = Mapping[str, Mapping[str, str]]


class Row(NamedTuple):
    case: str
    test: str
    note: str


def rows_of(text: str) -> list[Row]:
    found: list[Row] = []
    for line in text.splitlines():
        if _CASE.match(line, 2):
            case, test, note = line.removeprefix("|").removesuffix("|").split("|")
            found.append(Row(case.strip(), test.strip(), note.strip()))
    return found


def written_tests() -> dict[str, dict[str, str]]:
    """Return the docstring of each test, by its file and its name."""
    found: dict[str, dict[str, str]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        found[path.relative_to(ROOT).as_posix()] = {
            node.name: ast.get_docstring(node) or ""
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and node.name.startswith("test_")
        }
    return found


def complaints_of_row(row: Row, tests: Tests) -> list[str]:
    """Complain of tests that are gone or do not name the case, and of reasons that are gone."""
    said = [f"{row.case}: {name} is not there" for name in missing_tests(row, tests)]
    if row.test == WHY_NOT:
        quoted = _QUOTED.search(row.note)
        if quoted is None:
            said.append(f"{row.case}: quote the line that makes it impossible, `...` in src/...")
        elif quoted[1] not in (ROOT / quoted[2]).read_text():
            said.append(f"{row.case}: {quoted[2]} has no {quoted[1]}")
        return said
    if row.test == OPEN:
        if _OWNER.search(row.note) is None:
            said.append(f"{row.case}: name the issue that it belongs to")
        if case_is_shown(row.case, tests):
            said.append(f"{row.case}: a test shows it, so it is not open")
        return said
    path, _, name = row.test.partition("::")
    if row.case not in _CASE.findall(tests.get(path, {}).get(name, "")):
        said.append(f"{row.case}: the docstring of {row.test} does not name it")
    return said


def case_is_shown(case: str, tests: Tests) -> bool:
    docstrings = (docstring for those in tests.values() for docstring in those.values())
    return any(case in _CASE.findall(docstring) for docstring in docstrings)


def missing_tests(row: Row, tests: Tests) -> list[str]:
    """Return what the row names that is not there; a bare name is of the file named before it."""
    missing: list[str] = []
    path = ""
    for found in _TEST.finditer(f"{row.test} {row.note}"):
        if found[1]:
            path = found[1]
        if found[1] and path not in tests:
            missing.append(path)
        elif found[2] and found[2] not in tests.get(path, {}):
            missing.append(f"{path}::{found[2]}")
    return missing


def unlisted(tests: Tests, rows: list[Row]) -> list[str]:
    """Return the cases that a docstring names and no row does."""
    listed = {row.case for row in rows}
    return [
        f"{path}::{name} names {case}"
        for path, those in tests.items()
        for name, docstring in those.items()
        for case in _CASE.findall(docstring)
        if case not in listed
    ]


def test_a_row_that_is_wrong_would_be_noticed() -> None:
    tests = {"tests/a/test_b.py": {"test_c": "DB-01, DB-17: said.", "test_d": ""}}

    def wrong(test: str, note: str = "") -> list[str]:
        return complaints_of_row(Row("DB-01", test, note), tests)

    assert not wrong("tests/a/test_b.py::test_c", "and test_d")
    assert wrong("tests/a/test_b.py::test_c", "and test_gone")
    assert wrong("tests/a/test_b.py::test_c", "and tests/a/test_gone.py")
    assert wrong("tests/a/test_b.py::test_d")
    assert wrong("tests/a/test_gone.py::test_c")
    assert wrong("tests/a/")
    assert wrong(WHY_NOT, "it cannot be")
    assert wrong(WHY_NOT, "`gone` in src/wherry/errors.py")
    assert not wrong(WHY_NOT, "(`class WherryError` and more in src/wherry/errors.py)")
    assert not complaints_of_row(Row("DB-03", OPEN, "nothing yet: issue 5"), tests)
    assert complaints_of_row(Row("DB-03", OPEN, "nothing yet"), tests)
    assert complaints_of_row(Row("DB-01", OPEN, "nothing yet: issue 5"), tests)
    assert unlisted(tests, [Row("DB-01", "", "")]) == ["tests/a/test_b.py::test_c names DB-17"]


def test_every_row_names_tests_that_are_there_and_name_the_case() -> None:
    tests = written_tests()

    assert [
        said for row in rows_of(TABLE.read_text()) for said in complaints_of_row(row, tests)
    ] == []


def test_every_case_that_a_test_names_has_a_row() -> None:
    assert unlisted(written_tests(), rows_of(TABLE.read_text())) == []


def test_every_handed_case_has_a_row_in_its_place() -> None:
    rows = rows_of(TABLE.read_text())
    handed = {f"{kind}-{number}" for kind, numbers in HANDED.items() for number in numbers.split()}

    assert handed == {row.case for row in rows}
    assert [row[:2] for row in rows] == sorted({row[:2] for row in rows})
