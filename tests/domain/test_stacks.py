"""Which frames are shown, how many, and what of their source."""

from __future__ import annotations

import asyncio
import linecache
import sys
import traceback as python
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

import wherry
from wherry.domain.stacks import stack_lines

PACKAGE = Path(wherry.__file__).parent
CALL = "def call(f, *args):\n    return f(*args)\n"


def written_in(filename: str, source: str = CALL, name: str = "call") -> Callable[..., Any]:
    """Return a function that seems to stand in *filename*."""
    namespace: dict[str, Any] = {}
    exec(compile(source, filename, "exec"), namespace)
    function: Callable[..., Any] = namespace[name]
    return function


def traceback_of(call: Callable[..., Any], *args: Any) -> TracebackType:
    """Return the traceback of what *call* raises, from *call* on."""
    with pytest.raises(BaseException) as caught:  # noqa: PT011
        call(*args)
    found = caught.value.__traceback__
    assert found is not None
    assert found.tb_next is not None
    return found.tb_next


def handler() -> None:
    raise ValueError("x")


def test_frames_look_as_python_prints_them() -> None:
    found = traceback_of(handler)

    text = "\n".join(stack_lines(found))

    assert (
        text == "Traceback (most recent call last):\n" + "".join(python.format_tb(found)).rstrip()
    )


def test_the_machinery_above_a_handler_is_trimmed() -> None:
    worker = written_in(f"{PACKAGE}/worker/attempt.py")
    executor = written_in(f"{Path(asyncio.__file__).parent.parent}/concurrent/futures/thread.py")

    lines = stack_lines(traceback_of(worker, executor, worker, handler))

    assert len(lines) == 2
    assert ", in handler\n" in lines[1]


def test_what_a_handler_does_with_wherry_is_shown() -> None:
    worker = written_in(f"{PACKAGE}/worker/attempt.py")
    task = written_in(f"{PACKAGE}/tasks/task.py")
    mine = written_in("shop.py")

    lines = stack_lines(traceback_of(worker, mine, task, handler))

    assert [line.split('"')[1] for line in lines[1:]] == [
        "shop.py",
        f"{PACKAGE}/tasks/task.py",
        __file__,
    ]


def test_a_bug_of_our_own_is_shown_whole() -> None:
    worker = written_in(f"{PACKAGE}/worker/attempt.py")

    lines = stack_lines(traceback_of(worker, worker, len, 5))

    assert len(lines) == 3


def test_asyncio_frames_of_somebody_else_stay() -> None:
    loop = written_in(f"{Path(asyncio.__file__).parent}/runners.py")

    assert len(stack_lines(traceback_of(loop, handler))) == 3


def test_a_file_next_to_the_package_is_not_taken_for_ours() -> None:
    neighbour = written_in(f"{PACKAGE}/worker_of_mine.py")

    assert len(stack_lines(traceback_of(neighbour, handler))) == 3


def test_of_an_endless_recursion_the_middle_is_left_out() -> None:
    def sink(depth: int) -> None:
        if depth == 0:
            raise ValueError("bottom")
        sink(depth - 1)

    lines = stack_lines(traceback_of(sink, 300))

    assert len(lines) == 1 + 12 + 1 + 38
    assert lines[13] == "  … 251 frames are left out …"
    assert 'raise ValueError("bottom")' in lines[-1]


def test_a_file_that_is_gone_leaves_the_frame_without_its_line() -> None:
    gone = written_in("/nowhere/gone.py")

    assert (
        stack_lines(traceback_of(gone, handler))[1] == '  File "/nowhere/gone.py", line 2, in call'
    )


def test_a_loader_that_raises_leaves_the_frame_without_its_line() -> None:
    class Loader:
        def get_source(self, name: str) -> str:
            raise RuntimeError(name)

    namespace: dict[str, Any] = {"__loader__": Loader(), "__name__": "odd"}
    exec(compile(CALL, "/nowhere/odd.py", "exec"), namespace)

    lines = stack_lines(traceback_of(namespace["call"], handler))

    assert lines[1] == '  File "/nowhere/odd.py", line 2, in call'


def test_an_endless_source_line_is_cut(tmp_path: Path) -> None:
    source = "def call():\n    raise ValueError  # " + "x" * 100_000 + "\n"
    path = tmp_path / "minified.py"
    path.write_text(source)

    lines = stack_lines(traceback_of(written_in(str(path), source)))

    assert len(lines[1].split("\n")[1]) <= 304
    linecache.clearcache()


def test_no_frame_is_no_line() -> None:
    assert stack_lines(None) == []
    assert sys.exception() is None
