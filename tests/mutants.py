"""Known bugs in statements, each put in for the length of a test or of a process.

A suite that finds nothing may be blind. A pattern that finds nothing to change is an error, so that
no mutant turns harmless unnoticed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from unittest import mock

from wherry.transport import base, render


@dataclass(frozen=True, slots=True)
class Mutant:
    """In *statement*, what each pattern finds is replaced."""

    name: str
    statement: str
    changes: tuple[tuple[str, str], ...]

    def mutate(self, text: str) -> str:
        """Return the statement's text with the bug in it."""
        for pattern, bad in self.changes:
            text, times = re.subn(pattern, bad, text)
            if not times:
                raise AssertionError(f"mutant {self.name}: {self.statement} has no {pattern}")
        return text

    @contextmanager
    def put_in(self) -> Iterator[None]:
        """Have this process run the statement with the bug in it, on connections made meanwhile."""
        source = render.source

        def changed(statement: str) -> str:
            text = source(statement)
            return self.mutate(text) if statement == self.statement else text

        with mock.patch.object(render, "source", changed):
            _forget_rendered()
            try:
                yield
            finally:
                _forget_rendered()


def _forget_rendered() -> None:
    # Each keeps texts of its own, made of those of the one before.
    render.render.cache_clear()
    base._rendered.cache_clear()
    base._typed.cache_clear()
