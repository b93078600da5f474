"""docs/reference/cli.md names every verb, argument and option, and nothing that is not there.

The table of a verb is made of its help texts. After a change of an option, `expected_section` is
what the page has to hold; the failure prints it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from wherry.cli import entry, main
from wherry.cli.bench import bench

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "reference" / "cli.md").read_text()
# Explained once, for all verbs.
OF_EVERY_BENCHMARK = ("--runs", "--json", "--plot", "--dsn", "--yes")
COMMON = ("--dsn", "--schema", "--json", "-v", "-q")


def verbs(group: click.Group = main, path: str = "wherry") -> Iterator[tuple[str, click.Command]]:
    """Yield every verb that does something, with all the words that call it."""
    for name, command in sorted(group.commands.items()):
        if isinstance(command, click.Group):
            yield from verbs(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


def options(command: click.Command) -> list[click.Option]:
    # Those of a benchmark are not there before they are asked for.
    params = command.get_params(click.Context(command))
    return [
        param
        for param in params
        if isinstance(param, click.Option) and not param.hidden and "--help" not in param.opts
    ]


def shown(option: click.Option) -> str:
    """Return the option as the page writes it."""
    names = ", ".join([*option.opts, *option.secondary_opts])
    if option.is_flag or option.count:
        return names
    choices = "|".join(option.type.choices) if isinstance(option.type, click.Choice) else None
    return f"{names} {choices or option.metavar}"


def expected_section(command: click.Command) -> str:
    """Return the rows of the verb's table, and the line of what it has in common with others."""
    if command in bench.commands.values():
        own = [option for option in options(command) if option.opts[0] not in OF_EVERY_BENCHMARK]
        return "\n".join(f"| `{shown(option)}` | {option.help} |" for option in own)
    rows = [
        # A bar inside a cell would end it.
        f"| `{shown(option).replace('|', chr(92) + '|')}` | {option.help} |"
        for option in options(command)
        if option.opts[0] not in COMMON
    ]
    common = [name for name in COMMON if any(name in option.opts for option in options(command))]
    return "\n".join([*rows, f"And {', '.join(f'`{name}`' for name in common)}."])


def heading(path: str, command: click.Command) -> str:
    arguments = [str(p.metavar) for p in command.params if isinstance(p, click.Argument)]
    return " ".join([path, *arguments])


def sections() -> dict[str, str]:
    """Return the page's sections by the words in code of their headings."""
    parts = re.split(r"^#{2,4} `(wherry[^`]*)`.*$", PAGE, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize(("path", "command"), list(verbs()), ids=[path for path, _ in verbs()])
def test_the_page_says_what_a_verb_can_be_told(path: str, command: click.Command) -> None:
    section = sections().get(heading(path, command), "")

    wanted = expected_section(command).splitlines()
    assert [line for line in wanted if line not in section.splitlines()] == [], "\n".join(wanted)


def test_the_page_says_once_what_every_benchmark_can_be_told() -> None:
    part = PAGE.partition("\n## Benchmarks\n")[2].partition("\n### ")[0]

    said = [name for command in bench.commands.values() for name in map(shown, options(command))]
    of_all = {name for name in said if said.count(name) == len(bench.commands)}
    assert {name.split()[0] for name in of_all} == set(OF_EVERY_BENCHMARK)
    assert [name for name in of_all if f"| `{name}` |" not in part] == []


def test_the_page_has_no_verb_that_is_not_there() -> None:
    assert set(sections()) == {heading(path, command) for path, command in verbs()}


def test_the_page_has_no_option_that_is_not_there() -> None:
    there = {
        name
        for _, command in verbs()
        for option in options(command)
        for name in [*option.opts, *option.secondary_opts]
    }
    there |= {"--help", "--version", "-h"}

    # Of Python, and of a queue in an example that is called so.
    theirs = {"-m", "-x"}
    assert (
        set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*(?=[` =\n,'|])", PAGE)) - there - theirs == set()
    )


def test_the_page_names_every_common_option() -> None:
    everywhere = PAGE.partition("## Everywhere")[2].partition("\n## ")[0]

    for name in COMMON:
        assert f"`{name}" in everywhere


def test_the_page_names_every_exit_code() -> None:
    codes = {
        value
        for name, value in vars(entry).items()
        if name.isupper() and not name.startswith("_") and isinstance(value, int)
    }

    assert {int(code) for code in re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)} == codes
