"""Every promise has tests that watch it, by names that are there.

Who renames one of these tests, or drops one, says in docs/explain/guarantees.md who watches now.
"""

from __future__ import annotations

import re

from tests.house.test_cases import written_tests
from tests.house.test_documents import table
from tests.nemesis.checker import PROMISES

PAGE = "docs/explain/guarantees.md"
_NAMED = re.compile(r"`([\w/]+\.py)::(test_\w+)`")


def unwatched(rows: list[list[str]], tests: dict[str, dict[str, str]]) -> list[str]:
    """Complain of lines without a test, and of tests that are not there."""
    found: list[str] = []
    for number, _what, named in rows:
        watchers = _NAMED.findall(named)
        if not watchers:
            found.append(f"{number}: nobody watches it")
        found += [
            f"{number}: {path}::{name} is not there"
            for path, name in watchers
            if name not in tests.get(f"tests/{path}", {})
        ]
    return found


def test_every_promise_has_tests_that_are_there() -> None:
    assert unwatched(table(PAGE, "watched"), written_tests()) == []


def test_what_the_torture_checks_has_a_line() -> None:
    lines = {number for number, *_ in table(PAGE, "watched")}
    checked = {promise.split()[0] for promise in PROMISES if re.match(r"[A-Z]\d+ ", promise)}

    assert len(checked) > 15
    assert checked - lines == set()


def test_a_line_that_nobody_watches_would_be_noticed() -> None:
    tests = {"tests/a/test_b.py": {"test_c": ""}}

    assert not unwatched([["W1", "so", "`a/test_b.py::test_c`"]], tests)
    assert unwatched([["W1", "so", ""]], tests)
    assert unwatched([["W1", "so", "`a/test_b.py::test_gone`"]], tests)
    assert unwatched([["W1", "so", "`a/test_gone.py::test_c`"]], tests)
