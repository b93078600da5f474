"""The kinds of fields that requests and answers are made of, with what they accept.

What is said here stands in the OpenAPI document and is what msgspec checks, so that the two cannot
differ. Lengths of text are counted in characters there and in bytes of UTF-8 further in: text that
is not ASCII may be refused although it is not too long for the document.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from typing import Annotated, Any, Final, TypeAlias

from msgspec import UNSET, Meta, Raw, UnsetType

from wherry.app.asked import LONGEST_LEASE_SECONDS
from wherry.app.asked_filter import FINGERPRINT, HELD
from wherry.config import ServerSettings
from wherry.domain.durations import LONGEST_SECONDS
from wherry.domain.failure import MESSAGE_LIMIT_BYTES
from wherry.domain.limits import MOST_PER_SECONDS
from wherry.domain.options import (
    HEADERS_LIMIT_BYTES,
    HIGHEST_ID,
    HIGHEST_PRIORITY,
    LONGEST_KEY_BYTES,
    LONGEST_NAME_BYTES,
    LONGEST_TAG_BYTES,
    LOWEST_PRIORITY,
    MOST_ATTEMPTS,
    MOST_TAGS,
    check_instant,
)
from wherry.errors import InvalidOption

_DEFAULTS: Final = ServerSettings()
BATCH_LIMIT: Final = _DEFAULTS.batch_limit
HEARTBEAT_LIMIT: Final = _DEFAULTS.heartbeat_limit
_LONGEST_WAIT: Final = int(_DEFAULTS.longest_wait.total_seconds())
_A_CENTURY: Final = int(LONGEST_SECONDS)
_A_DAY: Final = int(LONGEST_LEASE_SECONDS)
_MOST_TOKEN_CHARACTERS: Final = 1024


def up_to(most: int) -> str:
    """Return a pattern for the whole numbers from 1 to *most*, written without leading zeros."""
    digits = str(most)
    kinds = [f"[1-9][0-9]{{0,{len(digits) - 2}}}"] if len(digits) > 1 else []
    for n, digit in enumerate(digits):
        least = 0 if n else 1
        if int(digit) > least:
            rest = len(digits) - n - 1
            tail = f"[0-9]{{{rest}}}" if rest else ""
            kinds.append(f"{digits[:n]}[{least}-{int(digit) - 1}]{tail}")
    return f"(?:{'|'.join([*kinds, digits])})"


def _seconds(*, most: int, least: int = 0, zero_allowed: bool = True) -> str:
    # Not finer than a microsecond, which is what the database keeps.
    below_one = "0(?:\\.[0-9]{1,6})?" if zero_allowed else "0\\.0{0,5}[1-9][0-9]{0,5}"
    kinds = [f"{up_to(most - 1)}(?:\\.[0-9]{{1,6}})?", f"{most}(?:\\.0{{1,6}})?"]
    return f"^(?:{'|'.join(kinds if least else [below_one, *kinds])})s$"


def _length(text: str, *, example: str = "30s", **bounds: Any) -> Meta:
    return Meta(
        pattern=_seconds(**bounds), description=f"{text} Seconds, such as `{example}` or `1.5s`."
    )


_PLAIN: Final = r"[^\x00-\x1f\x7f-\x9f]"
_NO_NUL: Final = r"^[^\x00]*$"

_ID: Final = up_to(HIGHEST_ID)

Id: TypeAlias = Annotated[str, Meta(pattern=f"^{_ID}$", description="A task's id.")]
Queue: TypeAlias = Annotated[
    str,
    Meta(
        pattern=rf"^(?:[^*\x00-\x1f\x7f-\x9f]|{_PLAIN}{{2,{LONGEST_NAME_BYTES}}})$",
        description=f"A queue's name: 1 to {LONGEST_NAME_BYTES} bytes, no control characters,"
        " and not `*`, which stands for all queues.",
    ),
]
PausedQueue: TypeAlias = Annotated[
    str,
    Meta(
        # As that of Queue: its parts stand the other way round because each form has its own words.
        pattern=rf"^(?:{_PLAIN}{{2,{LONGEST_NAME_BYTES}}}|[^*\x00-\x1f\x7f-\x9f])$",
        description="A queue's name, and never an empty one: leave it out for all queues.",
    ),
]
LeasedQueue: TypeAlias = Annotated[
    str,
    Meta(
        pattern=f"^{_PLAIN}{{1,{LONGEST_NAME_BYTES}}}$",
        description="A queue's name, or `*` for all of them.",
    ),
]
Type: TypeAlias = Annotated[
    str,
    Meta(
        pattern=f"^{_PLAIN}{{1,{LONGEST_NAME_BYTES}}}$",
        description=f"What kind of work it is: at most {LONGEST_NAME_BYTES} bytes.",
    ),
]
Worker: TypeAlias = Annotated[
    str,
    Meta(
        pattern=f"^{_PLAIN}{{1,{LONGEST_NAME_BYTES}}}$",
        description=f"A worker's name: at most {LONGEST_NAME_BYTES} bytes.",
    ),
]
_HEX = "[0-9a-fA-F]"
Instance: TypeAlias = Annotated[
    str,
    Meta(
        pattern=f"^{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}$",
        description="A UUID.",
    ),
]
Key: TypeAlias = Annotated[
    str,
    Meta(
        pattern=rf"^[^\x00]{{1,{LONGEST_KEY_BYTES}}}$",
        description=f"An idempotency key, unique in its queue: at most {LONGEST_KEY_BYTES} bytes.",
    ),
]
Tag: TypeAlias = Annotated[
    str,
    Meta(
        pattern=f"^{_PLAIN}{{1,{LONGEST_TAG_BYTES}}}$",
        description=f"At most {LONGEST_TAG_BYTES} bytes, no control characters.",
    ),
]
Tags: TypeAlias = Annotated[
    list[Tag], Meta(max_length=MOST_TAGS, description="For finding it again.")
]
_HeaderName: TypeAlias = Annotated[str, Meta(pattern=f"^{_PLAIN}+$")]
_HeaderValue: TypeAlias = Annotated[str, Meta(pattern=_NO_NUL)]
Headers: TypeAlias = Annotated[
    dict[_HeaderName, _HeaderValue],
    Meta(
        description=f"Strings that go along, at most {HEADERS_LIMIT_BYTES:,} bytes together.",
    ),
]
Priority: TypeAlias = Annotated[
    int, Meta(ge=LOWEST_PRIORITY, le=HIGHEST_PRIORITY, description="Higher runs first.")
]
MaxAttempts: TypeAlias = Annotated[
    int, Meta(ge=1, le=MOST_ATTEMPTS, description="How many attempts there may be; 1: no retry.")
]
Reason: TypeAlias = Annotated[
    str,
    Meta(
        pattern=_NO_NUL,
        max_length=MESSAGE_LIMIT_BYTES,
        description="For people: shown with what is changed, or kept in the audit.",
    ),
]
Text: TypeAlias = Annotated[
    str, Meta(pattern=_NO_NUL, min_length=1, max_length=MESSAGE_LIMIT_BYTES)
]
LeaseToken: TypeAlias = Annotated[
    str,
    Meta(
        max_length=_MOST_TOKEN_CHARACTERS,
        description="A lease, as it was given: opaque, and known to its holder only.",
    ),
]
PageToken: TypeAlias = Annotated[
    str,
    Meta(
        pattern=f"^(?:{up_to(HIGHEST_ID)})?$",
        description="From the page before: what comes behind it. Opaque.",
    ),
]
Fingerprint: TypeAlias = Annotated[
    str, Meta(pattern=f"^{FINGERPRINT}$", description="Of a group of dead tasks.")
]
Held: TypeAlias = Annotated[
    str,
    Meta(
        pattern=f"^{HELD}$",
        max_length=4096,
        description="A field of a payload and its value: JSON, or else text.",
    ),
]
ListPageToken: TypeAlias = Annotated[
    str,
    Meta(
        pattern=f"^(?:b?{up_to(HIGHEST_ID)})?$",
        description="From another page: what comes behind it, or before it. Opaque.",
    ),
]
SearchLength: TypeAlias = Annotated[
    str, _length("How long it may take: 1 s to 60 s; 3 s if not given.", most=60, least=1)
]
PageSize: TypeAlias = Annotated[
    int, Meta(ge=1, le=BATCH_LIMIT, description="How many tasks a page has at most.")
]

Period: TypeAlias = Annotated[
    str,
    _length(
        "The time that a rate is for, a second at least and if it is not given.",
        example="60s",
        most=int(MOST_PER_SECONDS),
        least=1,
    ),
]
Length: TypeAlias = Annotated[str, _length("A length of time.", most=_A_CENTURY)]
PositiveLength: TypeAlias = Annotated[
    str, _length("A length of time, more than 0.", most=_A_CENTURY, zero_allowed=False)
]
LeaseLength: TypeAlias = Annotated[
    str,
    _length(
        "How long a lease holds: more than 0 and at most a day.", most=_A_DAY, zero_allowed=False
    ),
]
WaitLength: TypeAlias = Annotated[
    str, _length(f"How long to wait: at most {_LONGEST_WAIT} s.", most=_LONGEST_WAIT)
]
ConfirmLength: TypeAlias = Annotated[str, _length("1 s to 60 s.", example="5s", most=60, least=1)]
# As answers have them: never negative.
Seconds: TypeAlias = Annotated[
    str,
    Meta(pattern=r"^[0-9]+(?:\.[0-9]{1,6})?s$", description="Seconds, such as `30s` or `1.5s`."),
]
_RFC_3339 = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9:]{8}(?:\.[0-9]+)?(?:[Zz]|[+-][0-9]{2}:[0-9]{2})$"
Instant: TypeAlias = Annotated[
    str,
    Meta(
        extra_json_schema={"format": "date-time"},
        description="RFC 3339, with a zone; to the microsecond.",
    ),
]
JsonObject: TypeAlias = Annotated[
    Raw,
    Meta(
        extra_json_schema={"type": "object"},
        description="Any JSON object; it comes back equal, big numbers included.",
    ),
]
JsonValue: TypeAlias = Annotated[
    Raw, Meta(description="Any JSON; it comes back equal, big numbers included.")
]


def read_id(text: str, *, option: str = "id") -> int:
    """Return the task's id that *text* is. Raises InvalidOption."""
    if not re.fullmatch(_ID, text):
        raise InvalidOption(option, text, "is no id of a task")
    return int(text)


def read_seconds(text: str | None, *, option: str) -> float | None:
    """Return the seconds of a length that has the pattern of one; None for None."""
    if text is None:
        return None
    # The pattern's end lets a line break through.
    if not text.endswith("s"):
        raise InvalidOption(option, text, "must be seconds, such as '30s'")
    return float(text[:-1])


def read_instant(text: str | None, *, option: str) -> datetime | None:
    """Return the instant of an RFC 3339 text; None for None. Raises InvalidOption."""
    if text is None:
        return None
    # What comes after the microseconds is cut off, since the database keeps no more.
    found = re.fullmatch(_RFC_3339, text)
    try:
        if found is None:
            raise ValueError
        instant = datetime.fromisoformat(re.sub(r"(\.[0-9]{6})[0-9]+", r"\1", text.upper()))
    except ValueError:
        reason = "must be a time such as '2030-01-31T12:00:00Z', with its zone"
        raise InvalidOption(option, text, reason) from None
    return check_instant(instant, option=option)


def write_seconds(seconds: float | None) -> str | UnsetType:
    """Return a length of time as answers have it; one that is over is `0s`."""
    if seconds is None:
        return UNSET
    if not math.isfinite(seconds) or seconds < 0:
        return "0s"
    return f"{seconds:.6f}".rstrip("0").rstrip(".") + "s"


def write_instant(instant: datetime) -> str:
    """Return an instant as answers have it, in UTC."""
    return instant.astimezone(UTC).isoformat().replace("+00:00", "Z")


def write_instant_if(instant: datetime | None) -> str | UnsetType:
    """Return an instant, or nothing for None."""
    return UNSET if instant is None else write_instant(instant)


def given(value: str | None) -> str | UnsetType:
    """Return a text, or nothing for None."""
    return UNSET if value is None else value
