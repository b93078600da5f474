"""What `wherry worker` writes on stderr: in its own form, or in that of whoever set up logging."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Answer, Running
from wherry import App
from wherry.domain.retry import Fixed

Start = Callable[..., Running]
Cli = Callable[..., Answer]


def test_log_lines_can_be_json(started: Start, app: App, dsn: str, shop: str) -> None:
    app.enqueue("shop.broken", max_attempts=1)

    worker = started("worker", shop, "--dsn", dsn, "--until-empty", "--log-format", "json", "-v")

    assert worker.end() == 0
    lines = [json.loads(line) for line in worker.err.splitlines()]
    assert {"time", "level", "logger", "pid", "text"} <= lines[0].keys()
    assert lines[0]["time"].endswith("Z")
    assert any("dead after 1 attempt:" in line["text"] for line in lines)


def test_quiet_workers_say_only_what_is_wrong(
    started: Start, app: App, dsn: str, shop: str
) -> None:
    app.enqueue("shop.mail", {"to": "a"})

    worker = started("worker", shop, "--dsn", dsn, "--until-empty", "-q")

    assert worker.end() == 0
    assert worker.err == ""


SET_UP = "logging.basicConfig(format='MINE %(message)s', level=logging.INFO)"


@pytest.mark.parametrize("order", [("import wherry", SET_UP), (SET_UP, "import wherry")], ids=str)
def test_an_application_that_set_up_logging_keeps_its_own(
    started: Start, app: App, dsn: str, tmp_path: Path, order: tuple[str, str]
) -> None:
    """OBS-03: whether it did so before it imported wherry or after it; no line comes twice."""
    (tmp_path / "shop.py").write_text(
        "\n".join(("import logging", *order, "app = wherry.App()", "@app.task"))
        + "\ndef f() -> None:\n    logging.getLogger('shop').info('sold')\n"
    )
    app.enqueue("shop.f")

    worker = started("worker", "shop:app", "--dsn", dsn, "--until-empty")

    assert worker.end() == 0
    lines = worker.err.splitlines()
    assert all(line.startswith("MINE ") for line in lines)
    assert lines.count("MINE sold") == 1
    assert sum("20 slots" in line for line in lines) == 1


LOG_CONFIG = {
    "version": 1,
    "filters": {"task": {"()": "wherry.TaskFields"}},
    "formatters": {"mine": {"format": "MINE %(task_id)s %(message)s"}},
    "handlers": {
        "err": {"class": "logging.StreamHandler", "formatter": "mine", "filters": ["task"]}
    },
    "root": {"level": "INFO", "handlers": ["err"]},
}


@pytest.mark.parametrize("processes", ["1", "2"])
def test_logging_is_set_up_as_a_file_says(
    started: Start, app: App, dsn: str, tmp_path: Path, processes: str
) -> None:
    """OBS-03: each line once, in the application's form, with the task that it is of."""
    (tmp_path / "shop.py").write_text(
        "import logging, wherry\napp = wherry.App()\nlog = logging.getLogger('shop')\n"
        "@app.task\ndef f() -> None:\n    log.info('sold')\n"
    )
    (tmp_path / "logs.json").write_text(json.dumps(LOG_CONFIG))
    id = app.enqueue("shop.f").id

    worker = started(
        *("worker", "shop:app", "--dsn", dsn, "--until-empty", "--log-config", "logs.json"),
        *("--processes", processes),
    )

    assert worker.end() == 0
    lines = worker.err.splitlines()
    assert all(line.startswith("MINE ") for line in lines)
    assert lines.count(f"MINE {id} sold") == 1
    assert sum("20 slots" in line for line in lines) == int(processes)


@pytest.mark.parametrize("text", ["{", "[]", '{"version": 1, "root": {"handlers": ["gone"]}}'])
def test_a_file_that_sets_up_no_logging_is_named(
    cli: Cli, shop: str, tmp_path: Path, text: str
) -> None:
    (tmp_path / "logs.json").write_text(text)

    answer = cli("worker", shop, "--until-empty", "--log-config", "logs.json")

    assert answer.code == 2
    assert "--log-config: logs.json sets up no logging" in answer.err


def test_an_attempt_that_failed_has_one_traceback_in_the_log(
    started: Start, app: App, dsn: str, tmp_path: Path
) -> None:
    """OBS-04."""
    (tmp_path / "shop.py").write_text(
        "import wherry\napp = wherry.App()\n"
        "@app.task(max_attempts=3, retry=wherry.Fixed(0))\ndef f() -> None:\n"
        "    raise ValueError('boom')\n"
    )
    app.enqueue("shop.f", max_attempts=3, retry=Fixed(0))

    worker = started("worker", "shop:app", "--dsn", dsn, "--until-empty")

    assert worker.end() == 0
    assert worker.err.count("Traceback") == 3
    assert worker.err.count("ValueError: boom") == 6  # in the line, and below its traceback


def test_a_log_line_cannot_be_forged(started: Start, app: App, dsn: str, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(
        "import wherry\napp = wherry.App()\n@app.task(max_attempts=1)\ndef f() -> None:\n"
        "    raise ValueError('x\\n2027-01-01 00:00:00.000+00:00 error   wherry: all is lost')\n"
    )
    app.enqueue("shop.f", max_attempts=1)

    worker = started("worker", "shop:app", "--dsn", dsn, "--until-empty")

    assert worker.end() == 0
    assert "all is lost" in worker.err
    assert "\n2027-01-01" not in worker.err
