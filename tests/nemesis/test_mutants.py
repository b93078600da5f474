"""The mutants still fit the statements they are to spoil; `./run torture --mutants` runs them."""

from __future__ import annotations

from importlib.resources import files

import pytest

from tests.nemesis.mutants import MUTANTS, mutate


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_changes_its_statement(name: str) -> None:
    mutant = MUTANTS[name]
    text = files("wherry").joinpath("sql", f"{mutant.statement}.sql").read_text()

    assert mutate(text, mutant) != text
