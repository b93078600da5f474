"""Checks and normalizes what people say about a task, once, before anything is sent.

Every entrance (library, CLI, HTTP, gRPC) comes through `Options.spec`, so the limits below are the
only ones; the constraints of the tables are the last guard behind them. Names and keys are data:
':', '/', '%2F', '..', right-to-left marks, case and spaces are kept as they are, and nobody may
build an identifier, a path or a pattern from them without escaping.

    queue, type     1 to 255 bytes of UTF-8, no control characters; no queue is named '*'
    key             1 to 512 bytes of UTF-8, no NUL
    priority        -100 to 100, higher first
    max_attempts    1 to 32,767; 1 means no retry
    delay           0 to a hundred years; not together with run_after
    run_after       a datetime with a timezone
    timeout, ttl    more than 0, up to a hundred years
    key_ttl         0 to a hundred years
    tags            a list of at most 32, each 1 to 255 bytes, no control characters
    headers         strings to strings, at most 8 KiB of UTF-8 together
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple, NoReturn, TypeAlias, TypedDict, cast

from wherry.config import DEFAULT_MAX_ATTEMPTS, DEFAULT_QUEUE
from wherry.domain.durations import Duration, seconds_from
from wherry.domain.retry import RetryPolicy, check_own_policy, check_policy, to_json
from wherry.errors import InvalidOption

LONGEST_NAME_BYTES = 255
# Queue and key share an index row, and a btree takes at most 2,704 bytes of it.
LONGEST_KEY_BYTES = 512
LOWEST_PRIORITY, HIGHEST_PRIORITY = -100, 100
MOST_ATTEMPTS = 32_767
MOST_TAGS = 32
LONGEST_TAG_BYTES = 255
HEADERS_LIMIT_BYTES = 8 * 1024
# A day from the ends of time: read in another timezone, what is nearer could not be told in Python.
EARLIEST = datetime(1, 1, 2, tzinfo=UTC)
LATEST = datetime(9999, 12, 30, tzinfo=UTC)

# The largest number that a bigint holds.
HIGHEST_ID = 2**63 - 1

_NO_TAGS: tuple[str, ...] = ()


class DeclaredOptions(TypedDict, total=False):
    """What `@app.task(...)` may say for all tasks of a type; None is the same as not said."""

    queue: str | None
    priority: int | None
    max_attempts: int | None
    retry: RetryPolicy | None
    timeout: Duration | None
    ttl: Duration | None
    key_ttl: Duration | None
    tags: Sequence[str] | None
    headers: Mapping[str, str] | None


class EnqueueOptions(DeclaredOptions, total=False):
    """What can be said of a single enqueue; None is the same as not said."""

    delay: Duration | None
    run_after: datetime | None
    key: str | None


class TaskSpec(NamedTuple):
    """A task that may be enqueued: every field checked and in the form the database takes.

    A tuple, since a batch makes thousands that differ in their payloads only: what tasks of one
    kind have in common stands first, and their own last.
    """

    queue: str
    type: str
    priority: int
    delay_seconds: float | None
    run_after: datetime | None
    max_attempts: int
    retry: dict[str, Any] | None
    timeout_seconds: float | None
    ttl_seconds: float | None
    tags: tuple[str, ...]
    headers: dict[str, str]
    key_ttl_seconds: float | None
    key: str | None
    payload: str


# Makes the task of a payload; all else was checked.
SpecMaker: TypeAlias = Callable[[str], TaskSpec]


# What only `@app.task(...)` takes, besides these.
_OF_TYPES = frozenset({"store_result", "isolation", "name"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Everything that is said about a task, unchecked; the one place that has the defaults."""

    queue: str = DEFAULT_QUEUE
    priority: int = 0
    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    retry: RetryPolicy | None = None
    timeout: Duration | None = None
    ttl: Duration | None = None
    key_ttl: Duration | None = None
    tags: Sequence[str] = _NO_TAGS
    headers: Mapping[str, str] | None = None
    delay: Duration | None = None
    run_after: datetime | None = None
    key: str | None = None

    @classmethod
    def declared(cls, given: Mapping[str, Any]) -> Options:
        """Return what a type declares. Raises InvalidOption for what is of a single enqueue."""
        return cls(**_said(given, known=DeclaredOptions.__optional_keys__, index=None))

    @classmethod
    def said(cls, given: Mapping[str, Any], *, index: int | None = None) -> Options:
        """Return what is said of one enqueue whose type declares nothing; see `changed`."""
        return cls(**_said_of_one(given, index=index))

    def changed(self, given: Mapping[str, Any], *, index: int | None = None) -> Options:
        """Return these options with those of one enqueue in their place.

        Raises InvalidOption for a name that is none, and for a retry function, which would not be
        stored with the task: no worker could know of it.
        """
        said = _said_of_one(given, index=index)
        return replace(self, **said) if said else self

    def spec(self, type: str, payload: str, *, index: int | None = None) -> TaskSpec:
        """Return the checked task; *payload* is JSON text that was encoded already.

        Raises InvalidOption; see `checked`.
        """
        return self.checked(type, index=index)(payload)

    def checked(self, type: str, *, index: int | None = None) -> SpecMaker:
        """Check all but the payload, once for many tasks; what is returned makes one of a payload.

        Raises InvalidOption, which names the option, its value, what to do, and *index*, the task's
        position in a batch. A retry function is stored as None: it runs in the worker.
        """
        delay, run_after, headers = self.delay, self.run_after, self.headers
        if delay is not None:
            if run_after is not None:
                reason = "cannot be given together with delay: leave one of the two out"
                raise InvalidOption("run_after", run_after, reason, index=index)
            delay = seconds_from(delay, option="delay", index=index)
        elif run_after is not None:
            run_after = check_instant(run_after, option="run_after", index=index)
        common = (
            check_name(self.queue, option="queue", index=index),
            check_name(type, option="type", index=index),
            check_priority(self.priority, index=index),
            delay,
            run_after,
            check_max_attempts(self.max_attempts, index=index),
            None if self.retry is None else to_json(check_policy(self.retry, index=index)),
            _limit(self.timeout, option="timeout", index=index),
            _limit(self.ttl, option="ttl", index=index),
            _NO_TAGS if self.tags is _NO_TAGS else check_tags(self.tags, index=index),
            {} if headers is None else check_headers(headers, index=index),
            (
                None
                if self.key_ttl is None
                else seconds_from(self.key_ttl, option="key_ttl", index=index)
            ),
            None if self.key is None else check_key(self.key, index=index),
        )
        return lambda payload: TaskSpec(*common, payload)


def _said_of_one(given: Mapping[str, Any], *, index: int | None) -> dict[str, Any]:
    said = _said(given, known=EnqueueOptions.__optional_keys__, index=index)
    if "retry" in said:
        check_own_policy(said["retry"], index=index)
    return said


def _said(given: Mapping[str, Any], *, known: frozenset[str], index: int | None) -> dict[str, Any]:
    for name in given:
        if name not in known:
            reason = f"no such option here; there are {', '.join(sorted(known))}"
            if name in _OF_TYPES:
                reason = f"belongs to the type, as in @app.task({name}=...): {reason}"
            raise InvalidOption(name, given[name], reason, index=index)
    return {name: value for name, value in given.items() if value is not None}


def check_name(name: object, *, option: str, index: int | None = None) -> str:
    """Return *name* if a queue or a type may be called so; *option* says which of them it is."""
    if type(name) is str and name != "*" and _is_short_and_plain(name, LONGEST_NAME_BYTES):
        return name
    text = check_text(name, option=option, limit_bytes=LONGEST_NAME_BYTES, index=index)
    if text == "*" and option in ("queue", "to_queue"):
        _refuse(option, name, "'*' stands for all queues: choose another name", index)
    _refuse_control(text, option=option, index=index)
    return text


def check_key(key: object, *, index: int | None = None) -> str:
    """Return the idempotency key as it is, if it can be one; case and spaces count."""
    if type(key) is str and _is_short_and_plain(key, LONGEST_KEY_BYTES):
        return key
    return check_text(key, option="key", limit_bytes=LONGEST_KEY_BYTES, index=index)


def check_integer(
    value: object, *, option: str, least: int, most: int, index: int | None = None
) -> int:
    """Return *value*, an integer from *least* to *most*."""
    if type(value) is int and least <= value <= most:
        return value
    # True is an int for Python, and never what anybody means here. Other subclasses (IntEnum) are.
    if isinstance(value, int) and type(value) is not bool:
        if least <= value <= most:
            return int(value)
        reason = f"must be between {least} and {most}"
    else:
        reason = f"must be an integer between {least} and {most}, not {type(value).__name__}"
    raise InvalidOption(option, value, reason, index=index)


def check_priority(priority: object, *, index: int | None = None) -> int:
    """Return the priority, -100 to 100; higher runs first."""
    return check_integer(
        priority, option="priority", least=LOWEST_PRIORITY, most=HIGHEST_PRIORITY, index=index
    )


def check_max_attempts(max_attempts: object, *, index: int | None = None) -> int:
    """Return how many attempts a task has, 1 (no retry) to 32,767."""
    return check_integer(
        max_attempts, option="max_attempts", least=1, most=MOST_ATTEMPTS, index=index
    )


def check_id(id: object, *, option: str = "id") -> int:
    """Return *id* if a task may have it."""
    return check_integer(id, option=option, least=1, most=HIGHEST_ID)


def check_flag(flag: object, *, option: str) -> bool:
    """Return *flag*, which is True or False and nothing else."""
    if type(flag) is bool:
        return flag
    raise InvalidOption(option, flag, f"must be True or False, not {type(flag).__name__}")


def check_list(values: Any, *, option: str, of: str) -> list[Any]:
    """Return what there is in *values*; a text or a mapping is no list, though one can iterate."""
    given: object = values
    # A string is a sequence of strings, and never what anybody means here.
    if isinstance(values, str | bytes | Mapping) or not hasattr(values, "__iter__"):
        _refuse(option, given, f"must be a list of {of}, not {type(given).__name__}", None)
    return list(values)


def check_instant(instant: object, *, option: str, index: int | None = None) -> datetime:
    """Return *instant* in UTC. Raises InvalidOption for one without a timezone.

    One in the past is as good as now.
    """
    if not isinstance(instant, datetime):
        kind = type(instant).__name__
        _refuse(option, instant, f"must be a datetime with a timezone, not {kind}", index)
    try:
        if instant.utcoffset() is None:
            reason = "has no timezone: use datetime.now(UTC) + ..., or astimezone() for local time"
            _refuse(option, instant, reason, index)
        there: datetime | None = instant.astimezone(UTC)
    except OverflowError:
        there = None
    if there is None or not EARLIEST <= there <= LATEST:
        _refuse(option, instant, "is beyond the years 1 to 9999 in every timezone", index)
    # Subclasses (of pendulum, pandas, test clocks) go no further: drivers know datetime.
    return datetime.combine(there.date(), there.time(), UTC)


def check_tags(tags: object, *, index: int | None = None) -> tuple[str, ...]:
    """Return the tags in their order, each once."""
    if not isinstance(tags, list | tuple):
        kind = type(tags).__name__
        _refuse("tags", tags, f"must be a list of strings, not {kind}", index)
    seen: dict[str, None] = {}
    for number, tag in enumerate(cast("Sequence[object]", tags)):
        option = f"tags[{number}]"
        text = check_text(tag, option=option, limit_bytes=LONGEST_TAG_BYTES, index=index)
        _refuse_control(text, option=option, index=index)
        seen[text] = None
        if len(seen) > MOST_TAGS:
            _refuse("tags", len(seen), f"must be at most {MOST_TAGS} different ones", index)
    return tuple(seen)


def check_headers(headers: object, *, index: int | None = None) -> dict[str, str]:
    """Return a copy of the headers, which map strings to strings."""
    if not isinstance(headers, Mapping):
        kind = type(headers).__name__
        _refuse("headers", headers, f"must be a dict of strings to strings, not {kind}", index)
    checked: dict[str, str] = {}
    size_bytes = 0
    for name, value in cast("Mapping[object, object]", headers).items():
        key = check_text(name, option="headers", limit_bytes=HEADERS_LIMIT_BYTES, index=index)
        _refuse_control(key, option="headers", index=index)
        option = f"headers[{key[:40]!r}]"
        text = check_text(
            value, option=option, limit_bytes=HEADERS_LIMIT_BYTES, empty_allowed=True, index=index
        )
        size_bytes += len(key.encode()) + len(text.encode())
        if size_bytes > HEADERS_LIMIT_BYTES:
            reason = f"take {size_bytes:,} bytes and more; the limit is {HEADERS_LIMIT_BYTES:,}"
            _refuse("headers", checked, f"{reason}: put data into the payload", index)
        checked[key] = text
    return checked


def _is_short_and_plain(text: str, limit_bytes: int) -> bool:
    # Printable ASCII, as nearly always, needs no closer look.
    return 0 < len(text) <= limit_bytes and text.isascii() and text.isprintable()


def _limit(value: object, *, option: str, index: int | None) -> float | None:
    if value is None:
        return None
    return seconds_from(value, option=option, zero_allowed=False, index=index)


def check_text(
    value: object,
    *,
    option: str,
    limit_bytes: int,
    empty_allowed: bool = False,
    index: int | None = None,
) -> str:
    """Return *value* as a plain string that PostgreSQL can store whole."""
    if not isinstance(value, str):
        _refuse(option, value, f"must be a string, not {type(value).__name__}", index)
    text = str.__str__(value)
    if not text and not empty_allowed:
        _refuse(option, value, "must not be empty", index)
    if "\0" in text:
        _refuse(option, value, "holds NUL, which PostgreSQL cannot store: remove it", index)
    try:
        size_bytes = len(text.encode())
    except UnicodeEncodeError as error:
        reason = f"holds a lone surrogate at character {error.start}: it is no valid unicode"
        _refuse(option, value, reason, index)
    if size_bytes > limit_bytes:
        reason = f"is {size_bytes:,} bytes long in UTF-8; the limit is {limit_bytes:,}: shorten it"
        _refuse(option, value, reason, index)
    return text


def _refuse_control(text: str, *, option: str, index: int | None) -> None:
    """Raise InvalidOption if *text* would break the line, the log or the terminal that shows it."""
    for position, character in enumerate(text):
        if unicodedata.category(character) == "Cc":
            reason = f"holds the control character U+{ord(character):04X} at character {position}"
            _refuse(option, text, f"{reason}: remove it", index)


def _refuse(option: str, value: object, reason: str, index: int | None) -> NoReturn:
    raise InvalidOption(option, value, reason, index=index)
