"""What the audit says of a patch: the names of members, whatever their values are."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from wherry.domain.patch import members_of


@pytest.fixture
def few_digits() -> Iterator[None]:
    """The interpreter reads as few digits as a user may set it to."""
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)
    yield
    sys.set_int_max_str_digits(before)


@pytest.mark.usefixtures("few_digits")
def test_an_integer_as_long_as_one_may_be_is_a_value_like_others() -> None:
    patch = f'{{"a":{{"b":{"9" * 1000},"c":null}},"d":-{"9" * 1000}}}'

    assert members_of(patch) == {"set": ["a.b", "d"], "removed": ["a.c"]}
