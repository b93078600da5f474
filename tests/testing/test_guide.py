"""The examples of docs/guides/testing.md work as pasted, with the plugin that users get."""

from __future__ import annotations

import importlib.metadata
import json
import re
import subprocess
import sys
from pathlib import Path

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "testing.md"
EXAMPLE = re.compile(r"^```python\n# (\S+\.py)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def run_pytest(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run pytest as a user would; the plugin by name, should this environment be older than it."""
    command = [
        *(sys.executable, "-m", "pytest", "-p", "wherry.testing.plugin"),
        *("-p", "no:randomly", "-p", "no:cacheprovider", "-p", "no:xdist", "-q", *options),
    ]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=100, check=False
    )


def test_the_examples_of_the_guide_pass(tmp_path: Path) -> None:
    examples = EXAMPLE.findall(GUIDE.read_text())
    for name, code in examples:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(code)
    (tmp_path / "shop" / "mail.py").write_text("def deliver(to: str, subject: str) -> None: ...\n")
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\n"
        "asyncio_mode = auto\n"
        "asyncio_default_fixture_loop_scope = function\n"
        "filterwarnings = error\n"
    )

    done = run_pytest(tmp_path)

    tests = sum(len(re.findall(r"^(?:async )?def test_", code, re.M)) for _, code in examples)
    assert len(examples) == 7
    assert f"{tests} passed" in done.stdout, done.stdout + done.stderr


def test_the_guide_shows_a_failure_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import wherry\n"
        "from wherry.testing import expect_enqueued\n"
        "def test_it(wherry_dsn):\n"
        "    with wherry.App(wherry_dsn) as app:\n"
        "        payload = {'to': 'a@example.com', 'subject': 'Thanks'}\n"
        "        app.enqueue('shop.tasks.send_email', payload, queue='email', key='order-1')\n"
        "        expect_enqueued(app, 'shop.tasks.send_email', {'to': 'b@example.com'})\n"
    )

    done = run_pytest(tmp_path, "--tb=native")

    [shown] = re.findall(r"^```text\n(.*?)```", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    assert shown in done.stdout, done.stdout


def test_whoever_uses_no_fixture_pays_nothing(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        "import json, sys\n"
        "def pytest_unconfigure(config):\n"
        "    loaded = [name for name in sys.modules if name.split('.')[0] in"
        " ('wherry', 'psycopg', 'psycopg_pool', 'click', 'rich')]\n"
        "    print('LOADED', json.dumps(sorted(loaded)))\n"
    )
    (tmp_path / "test_it.py").write_text("def test_it(): ...\n")

    done = run_pytest(tmp_path)

    [line] = [line for line in done.stdout.splitlines() if line.startswith("LOADED")]
    loaded = json.loads(line.removeprefix("LOADED"))
    assert loaded == ["wherry", "wherry.testing", "wherry.testing.plugin"]


def test_another_schema_is_a_fixture_away(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import pytest, wherry\n"
        "@pytest.fixture(scope='session')\n"
        "def wherry_schema():\n"
        "    return 'jobs of \"mine\"'\n"
        "def test_it(wherry_dsn, wherry_clock, wherry_schema):\n"
        "    wherry_clock.advance(hours=1)\n"
        "    with wherry.App(wherry_dsn, schema=wherry_schema) as app:\n"
        "        assert app.enqueue('note', {}).created\n"
    )

    done = run_pytest(tmp_path)

    assert "1 passed" in done.stdout, done.stdout


def test_the_plugin_is_offered_to_pytest() -> None:
    offered = importlib.metadata.distribution("wherry").entry_points

    [plugin] = [point for point in offered if point.group == "pytest11"]
    # The same name as in a conftest: else pytest would take it for two plugins.
    assert plugin.name == plugin.value == "wherry.testing.plugin"
