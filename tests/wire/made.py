"""Values that tests of the wire make up."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hypothesis import strategies as st

from wherry.domain.durations import LONGEST_SECONDS
from wherry.domain.options import EARLIEST, LATEST, Options
from wherry.domain.retry import Additive, Fixed, FullJitter

AT = datetime(2026, 11, 30, 12, tzinfo=UTC)

# Protobuf and PostgreSQL take any text but lone surrogates and, the latter, NUL.
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
names = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20).filter(
    lambda name: name != "*"
)
# Whole microseconds, as PostgreSQL keeps them.
lengths = st.integers(0, int(LONGEST_SECONDS)).map(float) | st.integers(0, 10**9).map(
    lambda micros: micros / 1_000_000
)
instants = st.datetimes(
    EARLIEST.replace(tzinfo=None), LATEST.replace(tzinfo=None), timezones=st.just(UTC)
)
policies = st.one_of(
    st.builds(FullJitter, lengths, lengths),
    st.builds(Additive, lengths, lengths, lengths),
    st.builds(Fixed, lengths),
)
headers = st.dictionaries(names, texts, max_size=3)


@st.composite
def options(draw: st.DrawFn) -> dict[str, Any]:
    """What can be said of one enqueue."""
    some: dict[str, Any] = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "queue": names,
                "key": names,
                "priority": st.integers(-100, 100),
                "max_attempts": st.integers(1, 32_767),
                "retry": policies,
                "timeout": lengths.filter(bool),
                "ttl": lengths.filter(bool),
                "key_ttl": lengths,
                "tags": st.lists(names, max_size=3),
                "headers": headers,
            },
        )
    )
    match draw(st.sampled_from(["now", "delay", "run_after"])):
        case "delay":
            some["delay"] = draw(lengths)
        case "run_after":
            some["run_after"] = draw(instants)
        case _:
            pass
    return some


specs = st.builds(
    lambda said, type_: Options().changed(said).spec(type_, '{"x":1}'), options(), names
)
