"""The mutants still fit the statements they are to spoil; `./run torture --mutants` runs them."""

from __future__ import annotations

import os
import pkgutil
import subprocess
import sys

import pytest

from tests.nemesis.cast import ROOT
from tests.nemesis.mutants import FUNCTIONS, MUTANTS, VARIABLE
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


def test_a_mutant_stays_in_the_process_that_put_it_in() -> None:
    name = "lease_keeps_token"
    script = (
        "import gc\n"
        "from tests.nemesis import mutants\n"
        "from wherry.transport import render\n"
        "mutants.apply()\n"
        "gc.collect()\n"
        f"print(render.source({MUTANTS[name].statement!r}))"
    )

    printed = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env={**os.environ, VARIABLE: name},
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    assert "greatest(live.token, 1)" in printed
