"""What Wherry shows to its users is importable and documented: names, errors and CLI verbs.

What does not exist yet leaves nothing to look at; once it exists, the rule holds for it.
"""

from __future__ import annotations

import ast
import enum
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import click

import wherry

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "wherry"


def undocumented(module: object, names: list[str]) -> list[str]:
    """Return those of *names* that *module* lacks or that say nothing about themselves."""
    missing = [f"{name} is not there" for name in names if not hasattr(module, name)]
    things = [(name, getattr(module, name)) for name in names if hasattr(module, name)]
    return missing + [
        f"{name} has no docstring"
        for name, thing in things
        if (inspect.isclass(thing) or inspect.isroutine(thing)) and not _own_docstring(thing)
    ]


def _own_docstring(thing: object) -> str:
    text = getattr(thing, "__doc__", None) or ""
    # Dataclasses without one are given their signature, and plain enums inherit theirs.
    if inspect.isclass(thing):
        inherited = issubclass(thing, enum.Enum) and text == enum.Enum.__doc__
        made_up = text.startswith(f"{thing.__name__}(")
        return "" if inherited or made_up else text
    return text


def errors_in(text: str) -> list[str]:
    return [node.name for node in ast.parse(text).body if isinstance(node, ast.ClassDef)]


def drawn_in(text: str) -> list[str]:
    """Return the names of the tree that the docstring of *text* draws."""
    drawing = ast.get_docstring(ast.parse(text)) or ""
    # The drawing is indented; a name stands behind its branch.
    return re.findall(r"^ {4}[│├└─ ]*([A-Z]\w+)", drawing, re.MULTILINE)


def without_help(command: click.Command, path: str) -> Iterator[str]:
    """Yield every verb below *command* without a help text, and every option without one."""
    if not (command.help or "").strip():
        yield f"{path}: no help"
    for parameter in command.params:
        if isinstance(parameter, click.Option) and not (parameter.help or "").strip():
            yield f"{path} {parameter.opts[0]}: no help"
    if isinstance(command, click.Group):
        for name, below in command.commands.items():
            yield from without_help(below, f"{path} {name}")


def test_an_undocumented_name_would_be_noticed() -> None:
    class Module:
        class Bare: ...

        class Said:
            """Says what it is."""

    assert undocumented(Module, ["Bare", "Gone", "Said"]) == [
        "Gone is not there",
        "Bare has no docstring",
    ]


def test_public_names_are_importable_and_documented() -> None:
    public: list[str] = list(getattr(wherry, "__all__", []))

    assert len(public) == len(set(public))
    assert undocumented(wherry, public) == []


def test_whatever_the_library_raises_is_public() -> None:
    for file in ("errors.py", "signals.py"):
        assert set(errors_in((SOURCE / file).read_text())) - set(wherry.__all__) == set()


def test_whatever_an_app_answers_is_public() -> None:
    calls = inspect.getmembers(wherry.App, inspect.isfunction)
    said = " ".join(
        str(inspect.signature(call).return_annotation)
        for name, call in calls
        if not name.startswith("_")
    )
    ours = {name for path in SOURCE.rglob("*.py") for name in errors_in(path.read_text())}
    answers = set(re.findall(r"\w+", said)) & ours

    assert {"Applied", "Canceled", "Enqueued", "Page", "Reported"} <= answers
    # What a decorator is applied with is called and thrown away.
    assert answers - set(wherry.__all__) == {"TaskDecorator"}


def test_every_error_is_drawn_in_the_tree_of_errors() -> None:
    # Fails when a class is added to errors.py and not to the drawing above it, or the reverse.
    text = (SOURCE / "errors.py").read_text()

    assert sorted(drawn_in(text)) == sorted(errors_in(text))


def test_every_error_stands_in_the_reference() -> None:
    # Fails when a class is added to errors.py and not to docs/reference/errors.md.
    for reference in ROOT.glob("docs/reference/errors.md"):
        said = set(re.findall(r"\w+", reference.read_text()))

        assert [
            name for name in errors_in((SOURCE / "errors.py").read_text()) if name not in said
        ] == []


def test_a_verb_or_option_without_help_would_be_noticed() -> None:
    group = click.Group("wherry", help="All verbs.")
    group.add_command(click.Command("bare"))
    group.add_command(click.Command("half", help="Helps.", params=[click.Option(["--json"])]))

    assert list(without_help(group, "wherry")) == [
        "wherry bare: no help",
        "wherry half --json: no help",
    ]


def test_every_verb_and_option_of_the_cli_has_help() -> None:
    for _ in SOURCE.glob("cli/__init__.py"):
        cli = importlib.import_module("wherry.cli")
        commands = [thing for thing in vars(cli).values() if isinstance(thing, click.Command)]

        assert commands, "wherry.cli holds no click command"
        assert [line for command in commands for line in without_help(command, "wherry")] == []
