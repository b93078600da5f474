"""The mutants still fit the statements they are to spoil; `./run torture --mutants` runs them."""

from __future__ import annotations

import pytest

from tests.nemesis.mutants import MUTANTS, mutate
from wherry.transport.render import source


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_changes_its_statement(name: str) -> None:
    mutant = MUTANTS[name]
    text = source(mutant.statement)

    assert mutate(text, mutant) != text
