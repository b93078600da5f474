"""Turns an exception, whatever it does when it is looked at, into text that can be stored.

The obvious way (`traceback.format_exception`) runs the exception's own code without a net, looks
into objects to suggest spellings, and may give back megabytes, NULs and lone surrogates. Any of
these would make the *report* of the failure fail, and then the task never ends. Here nothing of the
exception's can raise, local variables are never looked at, and the size is bounded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from wherry.domain.stacks import stack_lines

TYPE_LIMIT_BYTES = 255
MESSAGE_LIMIT_BYTES = 8 * 1024
TRACEBACK_LIMIT_BYTES = 32 * 1024

# Bounds on what one failure may drag along; past them the text says how much was left out.
_MOST_CHAINED = 20
_MOST_IN_GROUP = 15
_MOST_EXCEPTIONS = 60
_MOST_NOTES = 20
_NOTE_LIMIT_BYTES = 2 * 1024
_DEEPEST_GROUP = 8

_CAUSE = "\nThe above exception was the direct cause of the following exception:\n"
_CONTEXT = "\nDuring handling of the above exception, another exception occurred:\n"

# Read through the base classes, so that a property of the same name in a subclass never runs.
_get_cause = BaseException.__dict__["__cause__"].__get__
_get_context = BaseException.__dict__["__context__"].__get__
_get_suppress = BaseException.__dict__["__suppress_context__"].__get__
_get_traceback = BaseException.__dict__["__traceback__"].__get__
_get_grouped = BaseExceptionGroup.__dict__["exceptions"].__get__
_get_module = type.__dict__["__module__"].__get__
_get_qualname = type.__dict__["__qualname__"].__get__


@dataclass(frozen=True, slots=True)
class Failure:
    """What is stored of a failed attempt: three texts that PostgreSQL takes as they are."""

    type: str
    message: str
    traceback: str

    @classmethod
    def of_text(cls, message: str, *, type: str = "Error", traceback: str = "") -> Failure:
        """Return the failure of somebody who has only text to report, cleaned and cut alike."""
        return cls(
            type=_one_line(type),
            message=clean(message, MESSAGE_LIMIT_BYTES),
            traceback=clean(traceback, TRACEBACK_LIMIT_BYTES),
        )


def describe(error: BaseException) -> Failure:
    """Return *error* as text: its type, its message, its traceback with causes and notes.

    Never raises, whatever the exception's own methods do. Frames of Wherry's own machinery above
    the handler are left out.
    """
    name = type_name(type(error))
    message = _message_of(error)
    try:
        lines = _Telling().chain(error)
    except Exception as trouble:  # noqa: BLE001 - the border around a handler: report, whatever comes
        why = type_name(type(trouble))
        lines = [f"{name}: {message}", f"<no traceback: {why}>"]
    text = clean("\n".join(lines), TRACEBACK_LIMIT_BYTES)
    return Failure(type=name, message=message, traceback=text)


def clean(text: str, limit_bytes: int) -> str:
    r"""Return *text* as PostgreSQL can store it, in at most *limit_bytes* of UTF-8.

    NUL and lone surrogates are shown as `\u0000` and `\ud800`. What is too long keeps its head and
    its (longer) tail around a mark that says how long it was. 4 MB cost no more than 32 kB.
    """
    if len(text) <= limit_bytes:
        whole = _storable(text)
        if len(whole) <= limit_bytes:
            return whole.decode()
    mark = f"\n… {len(text):,} characters, cut here …\n".encode()
    room = max(0, limit_bytes - len(mark))
    head_bytes = room // 4
    tail_bytes = room - head_bytes
    # No character takes less than a byte, so nothing outside these slices can be kept.
    head = _storable(text[:head_bytes])[:head_bytes]
    tail = _storable(text[max(0, len(text) - tail_bytes) :])
    tail = tail[max(0, len(tail) - tail_bytes) :]
    # A character that was cut in two is dropped.
    return (head + mark + tail)[:limit_bytes].decode(errors="ignore")


def type_name(kind: type) -> str:
    """Return the qualified name of a class as one bounded, printable line.

    No code of its metaclass runs: also the names of hostile classes end up in error messages.
    """
    name: str = _get_qualname(kind)
    try:
        module: object = _get_module(kind)
    except AttributeError:
        module = None
    if type(module) is str and module != "builtins":
        name = f"{module}.{name}"
    return _one_line(name)


class _Telling:
    """One exception being told, with everything it brought along; each is told once."""

    def __init__(self) -> None:
        self.told: set[int] = set()

    def chain(self, error: BaseException, *, depth: int = 0) -> list[str]:
        """Return the lines for *error* after those of its causes, the first cause first."""
        links = [(error, "")]
        self.told.add(id(error))
        while len(links) < _MOST_CHAINED:
            latest = links[-1][0]
            before: BaseException | None = _get_cause(latest)
            sentence = _CAUSE
            if before is None and not _get_suppress(latest):
                before, sentence = _get_context(latest), _CONTEXT
            if before is None:
                break
            if id(before) in self.told:
                links[-1] = (latest, f"<{type_name(type(before))} again>\n{sentence}")
                break
            self.told.add(id(before))
            links[-1] = (latest, sentence)
            links.append((before, ""))
        else:
            links[-1] = (links[-1][0], f"<earlier exceptions are left out>\n{_CAUSE}")
        lines: list[str] = []
        for told, sentence in reversed(links):
            if sentence:
                lines.append(sentence)
            lines += self.one(told, depth=depth)
        return lines

    def one(self, error: BaseException, *, depth: int) -> list[str]:
        """Return the lines for *error* alone: frames, type and message, notes, group members."""
        lines = stack_lines(_get_traceback(error))
        name, message = type_name(type(error)), _message_of(error)
        lines.append(f"{name}: {message}" if message else name)
        lines += _notes_of(error)
        if issubclass(type(error), BaseExceptionGroup):
            lines += self.members(_get_grouped(error), depth=depth + 1)
        return lines

    def members(self, members: tuple[BaseException, ...], *, depth: int) -> list[str]:
        """Return the lines for the members of a group, set in."""
        lines: list[str] = []
        for number, member in enumerate(members, start=1):
            left = len(members) - number + 1
            if number > _MOST_IN_GROUP or depth > _DEEPEST_GROUP or self.full():
                lines.append(f"  +- <{left:,} more exceptions are left out>")
                break
            lines.append(f"  +- {number} of {len(members)} ---------------------------------")
            if id(member) in self.told:
                lines.append(f"  | <{type_name(type(member))} again>")
                continue
            told = "\n".join(self.chain(member, depth=depth))
            lines += [f"  | {line}" for line in told.split("\n")]
        return lines

    def full(self) -> bool:
        return len(self.told) >= _MOST_EXCEPTIONS


def _message_of(error: BaseException) -> str:
    # The string may be of a subclass with ideas of its own: only its characters are taken.
    try:
        text = str.__str__(str(error))
    except BaseException:  # noqa: BLE001 - even an exit raised in __str__ must not take the worker along
        return f"<unprintable {type_name(type(error))}>"
    return clean(text, MESSAGE_LIMIT_BYTES)


def _notes_of(error: BaseException) -> list[str]:
    try:
        notes: object = getattr(error, "__notes__", None)
    except BaseException:  # noqa: BLE001 - as for the message
        return ["<unreadable notes>"]
    # Python itself makes a plain list; a subclass could do anything when it is read.
    if type(notes) is not list:
        return []
    given = cast("list[object]", notes)
    lines = [
        clean(note, _NOTE_LIMIT_BYTES) if type(note) is str else "<a note that is no text>"
        for note in given[:_MOST_NOTES]
    ]
    left = len(given) - len(lines)
    return [*lines, f"<{left:,} more notes are left out>"] if left > 0 else lines


def _one_line(name: str) -> str:
    """Return *name* fit for a column that lists and searches: one printable, bounded line."""
    if not name.isprintable():
        head = name[:TYPE_LIMIT_BYTES]
        name = "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in head)
    if len(name) <= TYPE_LIMIT_BYTES and len(name.encode()) <= TYPE_LIMIT_BYTES:
        return name
    return name.encode()[: TYPE_LIMIT_BYTES - 3].decode(errors="ignore") + "…"


def _storable(text: str) -> bytes:
    return text.replace("\0", "\\u0000").encode(errors="backslashreplace")
