"""Programs, statements and console lines in the documents are run as a reader would run them.

A comment in the line above a fence says how; what has none is no program, or stands on a page that
is not under the rule below. The fences of a page share a folder and a database of their own:

    <!-- file: shop.py -->      this text, after what the page put there before, is that program
    <!-- run -->                console: each `$ ` line must succeed; lines below it are all it
                                prints. sql: every statement must succeed
    <!-- same as: path -->      the program at that path, but for its docstring
    <!-- part of: path -->      stands in the file at that path, word for word
    <!-- not run: reason -->

A program that no console line runs is run at the end.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")]
PAGES += sorted((ROOT / "docs").rglob("*.md"))
# On these pages every program, statement and console line says how it is run.
RULED = ("README.md", "docs/reference/options.md", "docs/reference/errors.md")
PROGRAMS = ("python", "sql", "console")

_FENCE = re.compile(
    r"(?:^<!-- (?P<mark>[^\n]*) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Fence:
    """A fenced text of a page, and what the comment above it says."""

    mark: str
    language: str
    text: str
    line: int

    @property
    def how(self) -> str:
        return self.mark.partition(":")[0]

    @property
    def what(self) -> str:
        return self.mark.partition(":")[2].strip()


def fences_in(page: str) -> list[Fence]:
    return [
        Fence(
            found["mark"] or "", found["language"], found["text"], page[: found.start()].count("\n")
        )
        for found in _FENCE.finditer(page)
    ]


def commands_in(text: str) -> Iterator[tuple[str, str]]:
    """Yield each command of a console text with what is shown below it."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield command, output


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def has_something_to_run(page: Path) -> bool:
    return any(fence.how in ("file", "run") for fence in fences_in(page.read_text()))


@pytest.fixture
def run(dsn: str, tmp_path: Path) -> Callable[[str], str]:
    """Run a command line in the page's folder, with its database in the environment."""
    programs = Path(sys.executable).parent
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("PYTHON")},
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PYTHONWARNINGS": "error",
        "WHERRY_DSN": dsn,
    }

    def run(command: str) -> str:
        done = subprocess.run(
            ["/bin/bash", "-c", command],
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, f"$ {command}\n{done.stdout}{done.stderr}"
        return done.stdout

    return run


def test_fences_and_their_marks_are_found() -> None:
    page = "# Title\n<!-- file: a.py -->\n```python\nx = 1\n```\n\n```\nno program\n```\n"

    assert fences_in(page) == [
        Fence("file: a.py", "python", "x = 1\n", 1),
        Fence("", "", "no program\n", 6),
    ]
    assert list(commands_in("$ one # why\n$ two\na\nb\n")) == [("one # why", ""), ("two", "a\nb\n")]


@pytest.mark.parametrize("name", RULED)
def test_every_program_in_the_reference_says_how_it_is_run(name: str) -> None:
    fences = fences_in((ROOT / name).read_text())

    assert fences
    assert [f"line {f.line}" for f in fences if f.language in PROGRAMS and not f.mark] == []


@pytest.mark.parametrize("page", [*filter(has_something_to_run, PAGES)], ids=name_of)
def test_what_a_page_shows_works(
    page: Path,
    run: Callable[[str], str],
    connect: Callable[..., psycopg.Connection[Any]],
    tmp_path: Path,
) -> None:
    written: dict[str, bool] = {}
    for fence in fences_in(page.read_text()):
        if fence.how == "file":
            with (tmp_path / fence.what).open("a") as program:
                program.write(fence.text + "\n\n")
            written[fence.what] = False
        elif fence.mark == "run" and fence.language == "sql":
            connect().execute(fence.text.encode())
        elif fence.mark == "run":
            for command, output in commands_in(fence.text):
                printed = run(command)
                assert not output or printed == output, f"{name_of(page)}: $ {command}"
                written |= {name: True for name in written if name in command}
    for program_name, was_run in written.items():
        if not was_run:
            run(f"python {program_name}")


@pytest.mark.usefixtures("wherry_home")
def test_the_first_program_works_as_pasted(tmp_path: Path) -> None:
    [fence] = [f for f in fences_in((ROOT / "README.md").read_text()) if f.how == "same as"]
    (tmp_path / "hello.py").write_text(fence.text)

    done = subprocess.run(
        [sys.executable, "hello.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (done.stdout, done.stderr, done.returncode) == ("Hello, world!\n", "", 0)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_excerpts_are_what_stands_in_the_examples(page: Path) -> None:
    for fence in fences_in(page.read_text()):
        if fence.how == "part of":
            assert fence.text in (ROOT / fence.what).read_text(), f"line {fence.line}"
        elif fence.how == "same as":
            assert fence.text == without_docstring((ROOT / fence.what).read_text())


def without_docstring(text: str) -> str:
    docstring = ast.parse(text).body[0]
    return "\n".join(text.splitlines()[docstring.end_lineno or 0 :]).strip("\n") + "\n"
