"""Tables of thousands of rows: what they look like at any width, and what they cost."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any

import pytest

from wherry.cli import output
from wherry.cli.asked import Asked
from wherry.cli.output import Column, Output

_COLUMNS = (
    Column("schedule"),
    Column("state", whole=True),
    Column("fired", whole=True, right=True),
    Column("said"),
)
_ROWS = [
    ("nightly", "active", "12", "none of it"),
    ("日本", "dead", "1,234,567", "a reason of several words that are folded"),
]
Shown = Callable[..., list[str]]


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shown:
    def show(*, columns: int | None = None) -> list[str]:
        if columns is not None:
            monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
            monkeypatch.setenv("COLUMNS", str(columns))
            monkeypatch.setenv("TERM", "xterm-256color")
        Output(Asked()).table(_COLUMNS, _ROWS)
        return re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out).splitlines()

    return show


def test_into_a_pipe_each_row_is_a_line(shown: Shown) -> None:
    assert shown() == [
        "schedule  state       fired  said",
        "nightly   active         12  none of it",
        "日本      dead    1,234,567  a reason of several words that are folded",
    ]


def test_on_a_terminal_texts_are_folded_in_their_columns(shown: Shown) -> None:
    assert shown(columns=52) == [
        "schedule  state       fired  said",
        "nightly   active         12  none of it",
        "日本      dead    1,234,567  a reason of several",
        "                             words that are folded",
    ]


def test_a_terminal_without_room_gets_blocks(shown: Shown) -> None:
    assert shown(columns=30)[:6] == [
        "schedule  nightly",
        "state     active",
        "fired     12",
        "said      none of it",
        "",
        "schedule  日本",
    ]


@pytest.mark.parametrize("columns", [30, 60, 100])
def test_of_thousands_of_rows_the_first_are_seen_at_once(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm-256color")
    written: list[str] = []
    monkeypatch.setattr(output, "write_out", written.append)

    Output(Asked()).table(_COLUMNS, _ROWS * 1000)

    assert len(written) >= 8
    assert sum(text.count("nightly") for text in written) == 1000


def test_a_cell_costs_little(capsys: pytest.CaptureFixture[str]) -> None:
    """Counted in calls, since seconds depend on who else works: Rich's table makes 250 a cell."""
    rows = [(f"nightly {n}", "active", str(n), "none of it") for n in range(2000)]
    out = Output(Asked())
    out.table(_COLUMNS, rows[:1])
    calls = 0

    def count(_frame: Any, event: str, _arg: Any) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        out.table(_COLUMNS, rows)
    finally:
        sys.setprofile(None)

    assert calls / (len(rows) * len(_COLUMNS)) < 30
