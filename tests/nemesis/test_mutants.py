"""The mutants still fit the statements they are to spoil; `./run torture --mutants` runs them."""

from __future__ import annotations

import pkgutil

import pytest

from tests.nemesis.mutants import FUNCTIONS, MUTANTS
from wherry.transport.render import source


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_changes_its_statement(name: str) -> None:
    mutant = MUTANTS[name]
    text = source(mutant.statement)

    assert mutant.mutate(text) != text


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_mutant_finds_its_function(name: str) -> None:
    target, spoil = FUNCTIONS[name]
    function = pkgutil.resolve_name(target)

    assert spoil(function) is not function
