"""What a driver says on several lines is one line of the log."""

from __future__ import annotations

import pytest

from wherry.domain.lines import on_one_line


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("it is full", "it is full"),
        (
            'connection to server at "::1" failed: Connection refused\n\tIs the server running?\n',
            'connection to server at "::1" failed: Connection refused; Is the server running?',
        ),
        ("first host: no\n\nsecond host:   no\r\n", "first host: no; second host: no"),
        ("", ""),
    ],
)
def test_lines_are_parted_where_they_ended(said: str, shown: str) -> None:
    assert on_one_line(said) == shown
