"""APP is `module:attribute`; what is wrong with it is said by name, before anything is leased."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Answer, Running
from wherry.cli.loading import load_app
from wherry.errors import ConfigError

Cli = Callable[..., Answer]


@pytest.fixture
def module(tmp_path: Path) -> Callable[[str], str]:
    """Write a module, and return its name, which no other test has."""

    def write(text: str) -> str:
        name = f"shop_{uuid.uuid4().hex}"
        (tmp_path / f"{name}.py").write_text(text)
        return name

    return write


def test_an_app_is_found_in_the_current_folder(module: Callable[[str], str]) -> None:
    name = module("import wherry\napp = wherry.App()\n@app.task\ndef f() -> None: ...\n")

    assert load_app(f"{name}:app").registry.names == (f"{name}.f",)


def test_an_app_may_be_an_attribute_of_something(module: Callable[[str], str]) -> None:
    name = module(
        "import wherry\nclass Box:\n    app = wherry.App()\n"
        "@Box.app.task\ndef f() -> None: ...\n"
    )  # fmt: skip

    assert len(load_app(f"{name}:Box.app").registry) == 1


@pytest.mark.parametrize(
    ("text", "attribute", "said"),
    [
        ("import wherry\nqueue = wherry.App()\n", ":app", "has no 'app'; the Apps in it: queue"),
        ("x = 1\n", ":app", "has no 'app'; there is no App in it"),
        ("app = 'x'\n", ":app", "is no wherry.App but a str"),
        ("def app(): ...\n", ":app", "make the App at the top of its module"),
        ("import wherry\napp = wherry.App()\n", ":app", "knows no task type"),
        ("import nowhere\n", ":app", "ModuleNotFoundError: No module named 'nowhere'"),
        ("x = 1\nraise ValueError('boom')\n", ":app", "ValueError: boom ("),
        ("import sys\nsys.exit(3)\n", ":app", "SystemExit: 3 ("),
        ("exit()\n", ":app", "SystemExit"),
        ("raise KeyboardInterrupt\n", ":app", "KeyboardInterrupt"),
        ("def f(:\n", ":app", "SyntaxError"),
        ("x = 1\n", "", "write module:attribute, such as shop.tasks:app"),
        ("x = 1\n", ".py:app", "write module:attribute"),
        ("x = 1\n", ":", "write module:attribute"),
    ],
)
def test_what_is_wrong_with_an_app_is_said_by_name(
    cli: Cli, module: Callable[[str], str], text: str, attribute: str, said: str
) -> None:
    """CLI-01, HND-03: exit code 2 and a sentence, whatever the module does."""
    name = module(text)

    answer = cli("worker", f"{name}{attribute}")

    assert (answer.code, answer.out) == (2, "")
    assert name in answer.err
    assert said in answer.err
    assert "Traceback" not in answer.err


def test_a_module_that_the_app_imports_is_named_too(cli: Cli, module: Callable[[str], str]) -> None:
    name = module("import wherry\napp = wherry.App(imports=['nowhere.at_all'])\n")

    answer = cli("worker", f"{name}:app")

    assert answer.code == 2
    assert "cannot import 'nowhere.at_all': there is no module 'nowhere' in" in answer.err


def test_a_module_that_is_not_there_is_told_where_it_was_looked_for(
    cli: Cli, tmp_path: Path
) -> None:
    answer = cli("worker", "nosuch.module:app")

    assert answer.code == 2
    assert f"there is no module 'nosuch' in {tmp_path}" in answer.err


@pytest.mark.parametrize("call", ["app.work()", "asyncio.run(app.awork())"])
def test_a_module_that_starts_a_worker_is_refused_instead_of_hanging(
    started: Callable[..., Running], tmp_path: Path, dsn: str, call: str
) -> None:
    """CLI-01."""
    (tmp_path / "shop.py").write_text(
        f"import asyncio, wherry\napp = wherry.App()\n"
        f"@app.task\ndef f() -> None: ...\n{call}\n"
    )  # fmt: skip

    worker = started("worker", "shop:app", "--dsn", dsn)

    assert worker.end(seconds=60) == 2
    assert "starts a worker while it is imported" in worker.err
    assert "shop.py, line 5" in worker.err


def test_exit_at_import_ends_the_process_with_2(
    started: Callable[..., Running], tmp_path: Path, dsn: str
) -> None:
    """HND-03: the code of the module's own exit must not be taken for ours."""
    (tmp_path / "shop.py").write_text("import sys\nsys.exit(0)\n")

    worker = started("worker", "shop:app", "--dsn", dsn)

    assert worker.end() == 2
    assert "cannot import 'shop': SystemExit: 0" in worker.err


def test_the_apps_own_database_comes_before_the_environment(
    cli: Cli, module: Callable[[str], str], dsn: str
) -> None:
    name = module(f"import wherry\napp = wherry.App({dsn!r})\n@app.task\ndef f() -> None: ...\n")

    answer = cli("worker", f"{name}:app", "--until-empty", WHERRY_DSN="host=nowhere.invalid")

    assert answer.code == 0, answer.err


def test_the_option_comes_before_the_apps_own_database(
    cli: Cli, module: Callable[[str], str], dsn: str
) -> None:
    name = module(
        "import wherry\napp = wherry.App('host=nowhere.invalid', schema='x')\n"
        "@app.task\ndef f() -> None: ...\n"
    )

    answer = cli("worker", f"{name}:app", "--until-empty", "--dsn", dsn, "--schema", "wherry")

    assert answer.code == 0, answer.err


def test_a_file_instead_of_a_module_gets_an_example() -> None:
    with pytest.raises(ConfigError, match="such as shop.tasks:app"):
        load_app("shop/tasks.py:app")
