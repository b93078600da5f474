"""Writes the frames of a traceback as Python prints them, without carets and without running code.

The frames of Wherry's own machinery lie above every handler's and tell its author nothing: they are
trimmed from the top, and only from there, so that what a handler does *with* Wherry is still shown.
Source lines come from `linecache`, as they do for Python's own tracebacks.
"""

from __future__ import annotations

import linecache
import sys
from pathlib import Path
from traceback import format_stack
from types import TracebackType

_MOST_FRAMES_ABOVE = 12
_MOST_FRAMES_BELOW = 38
_LONGEST_LINE = 300

_PACKAGE = Path(__file__).resolve().parent.parent
_OURS = tuple(f"{_PACKAGE / part}/" for part in ("app", "tasks", "testing", "worker"))
# What the standard library puts between our worker and a handler.
_STDLIB = Path(linecache.__file__).parent
_MACHINERY = (*_OURS, f"{_STDLIB / 'asyncio'}/", f"{_STDLIB / 'concurrent'}/")


def stack_lines(traceback: TracebackType | None) -> list[str]:
    """Return the lines for *traceback*, innermost frame last; none if there is no frame.

    Of a very deep stack (endless recursion) the middle is left out, and a line says so.
    """
    frames: list[TracebackType] = []
    while traceback is not None:
        frames.append(traceback)
        traceback = traceback.tb_next
    frames = frames[_machinery(frames) :]
    if not frames:
        return []
    left_out = len(frames) - _MOST_FRAMES_ABOVE - _MOST_FRAMES_BELOW
    lines = ["Traceback (most recent call last):"]
    if left_out > 0:
        lines += map(_frame_lines, frames[:_MOST_FRAMES_ABOVE])
        lines.append(f"  … {left_out:,} frames are left out …")
        frames = frames[-_MOST_FRAMES_BELOW:]
    lines += map(_frame_lines, frames)
    return lines


def _machinery(frames: list[TracebackType]) -> int:
    """Return how many frames on top are machinery; none if all are, for then it is our bug."""
    ours = False
    for number, entry in enumerate(frames):
        filename = entry.tb_frame.f_code.co_filename
        if not filename.startswith(_MACHINERY):
            return number if ours else 0
        ours = ours or filename.startswith(_OURS)
    return 0


def _frame_lines(entry: TracebackType) -> str:
    code, number = entry.tb_frame.f_code, entry.tb_lineno
    text = f'  File "{code.co_filename}", line {number}, in {code.co_name}'
    source = _source_line(entry, number)
    return f"{text}\n    {source}" if source else text


def _source_line(entry: TracebackType, number: int | None) -> str:
    if number is None:
        return ""
    try:
        line = linecache.getline(
            entry.tb_frame.f_code.co_filename, number, entry.tb_frame.f_globals
        )
    except Exception:  # noqa: BLE001 - a loader from elsewhere may raise anything; the frame stands
        return ""
    return line[: _LONGEST_LINE * 2].strip()[:_LONGEST_LINE]


def thread_stack(thread: int | None) -> str:
    """Return the innermost frames of a thread (by its ident), or `(unknown)` once it is gone."""
    # The only way there is; its name is private, its behaviour is documented.
    frames = sys._current_frames()  # pyright: ignore[reportPrivateUsage]
    frame = None if thread is None else frames.get(thread)
    return "".join(format_stack(frame)[-6:]) if frame else "(unknown)"
