"""Every verb with hostile values: an answer or one sentence, never a traceback, never raw bytes.

Some are tried in each run, by the seed that pytest prints; `--fuzz-calls 20000` tries about all.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from typing import Any

import click
import pytest
from click.testing import CliRunner

from tests.fuzz.hostile import EVERY
from wherry.cli import main

# These run for long, or ask where to; of them the arguments are read, and no more.
ONLY_READ = {"up", "worker", "server", "bench"}
# What leads to another database, or to none.
ELSEWHERE = {"dsn", "schema"}
GOOD = {
    "integer": "1", "integer range": "1", "duration": "1s", "instant": "2030-01-01T00:00:00Z",
}  # fmt: skip
# What a terminal would obey; tables and sentences need the ends of lines.
RAW = re.compile(r"[\0-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")

# A process's arguments hold no NUL, and of what is no text only what stands for a byte.
ARGUMENTS = [text for text in EVERY if not re.search("[\0\ud800-\udc7f]", text)]

Call = tuple[tuple[str, ...], click.Command, list[str]]


def verbs(
    group: click.Group, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield each verb that does something, and what its name is."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from verbs(command, (*path, name))
        else:
            yield (*path, name), command


def well(parameter: click.Parameter) -> str:
    """Return a parameter as it is well given."""
    kind = parameter.type
    value = kind.choices[0] if isinstance(kind, click.Choice) else GOOD.get(kind.name, "mail")
    return str(value) if isinstance(parameter, click.Argument) else f"{parameter.opts[0]}={value}"


def calls() -> Iterator[Call]:
    """Yield every verb with every hostile value in each place that takes a value."""
    for path, command in verbs(main):
        for spoiled in command.params:
            if spoiled.name in ELSEWHERE or getattr(spoiled, "is_flag", False):
                continue
            if isinstance(spoiled, click.Option) and spoiled.count:
                continue
            others = [
                well(other) for other in command.params if other.required and other is not spoiled
            ]
            for text in ARGUMENTS:
                given = [f"{spoiled.opts[0]}={text}"]
                if isinstance(spoiled, click.Argument):
                    # Behind `--` nothing is taken for an option.
                    given = ["--", text]
                yield path, command, [*others, *given]


def complaint(code: int, out: str, err: str) -> str | None:
    """Say what is wrong with an answer, if anything is."""
    if code not in (0, 1, 2):
        return f"exit code {code}"
    if "Traceback" in err or "PostgreSQL refused" in err:
        return "not a sentence of ours"
    if code and not err.strip():
        return "refused without a word"
    if raw := RAW.search(out + err):
        return f"a raw {raw[0]!r}"
    return None


def answer_of(command: Sequence[str], dsn: str) -> tuple[int, str, str]:
    """Run the command line here; what is raised past its door is raised."""
    result = CliRunner().invoke(main, command, env={"WHERRY_DSN": dsn, "PAGER": "cat"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


def drawn(most: int) -> list[Call]:
    every = list(calls())
    return random.sample(every, min(most, len(every)))


@pytest.mark.timeout(3600)
def test_every_verb_bears_hostile_values(
    dsn: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    most: Any = request.config.getoption("--fuzz-calls")
    found: list[str] = []
    for path, command, given in drawn(int(most) // 2):
        try:
            if path[0] in ONLY_READ:
                command.make_context(path[-1], list(given))
                continue
            said = complaint(*answer_of([*path, *given], dsn))
        except (click.ClickException, click.exceptions.Exit):
            continue
        except Exception as error:
            said = f"raised {error!r}"
        if said is not None:
            found.append(f"wherry {' '.join(path)} {given!a}: {said}")
    assert found == []


def test_what_is_wrong_with_an_answer_would_be_noticed() -> None:
    assert complaint(3, "", "gone")
    assert complaint(2, "", "Traceback (most recent call last)")
    assert complaint(2, "", "")
    assert complaint(0, "\x1b[31m", "")
    assert complaint(2, "", "Error: 'x' is no length of time") is None
    assert complaint(0, "id  queue\n", "") is None
