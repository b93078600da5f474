"""`wherry bench` leaves a database as it was, and refuses what it did not make."""

from __future__ import annotations

import importlib
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, LiteralString

import psycopg
import pytest
from click.testing import CliRunner

from tests.facts import wait_for
from wherry.bench import BENCHMARKS
from wherry.cli.bench import bench

VERB = (sys.executable, "-m", "wherry", "bench")


@pytest.fixture
def outside(dsn: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection


def run(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*VERB, *arguments], capture_output=True, text=True, timeout=100, check=False, cwd=cwd
    )


@contextmanager
def measuring(
    dsn: str, outside: psycopg.Connection[Any]
) -> Generator[subprocess.Popen[bytes], None, None]:
    """Give a benchmark that has made its schema; it is ended with the block."""
    process = subprocess.Popen([*VERB, "idle", "--dsn", dsn, "--yes"], stderr=subprocess.PIPE)
    try:
        # A process of Python takes seconds to start on a machine that is full.
        wait_for(lambda: ("schema", "wherry_bench") in whole(outside), seconds=60)
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=60)


def whole(connection: psycopg.Connection[Any]) -> list[tuple[Any, ...]]:
    return connection.execute(
        "select 'schema', nspname from pg_namespace where nspname !~ '^pg_(toast_)?temp'"
        " union all select 'extension', extname from pg_extension order by 1, 2"
    ).fetchall()


def test_a_benchmark_leaves_the_database_as_it_was(
    dsn: str, outside: psycopg.Connection[Any], tmp_path: Path
) -> None:
    before = whole(outside)

    done = run(
        "drain", "--tasks", "300", "--processes", "1", "--runs", "1", "--json", "d.json",
        "--dsn", dsn, "--yes", cwd=tmp_path,
    )  # fmt: skip

    assert done.returncode == 0
    if outside.info.server_version >= 150000:
        assert done.stderr == ""
    else:
        assert done.stderr.startswith("left out: no bytes of WAL: only pg_walinspect ")
    assert "prediction: " in done.stdout
    assert (tmp_path / "d.json").exists()
    assert whole(outside) == before


def test_a_benchmark_that_is_interrupted_drops_what_it_made(
    dsn: str, outside: psycopg.Connection[Any]
) -> None:
    before = whole(outside)
    with measuring(dsn, outside) as process:
        process.send_signal(signal.SIGTERM)

        _, said = process.communicate(timeout=60)

    assert process.returncode == 130
    # The driver may tell first what it was in the middle of.
    assert said.splitlines()[-1] == b"interrupted"
    assert whole(outside) == before


def test_the_processes_of_a_benchmark_that_was_killed_end_with_it(
    dsn: str, outside: psycopg.Connection[Any]
) -> None:
    def asked(query: LiteralString) -> bool:
        return bool(outside.execute(query).fetchall())

    with measuring(dsn, outside) as process:
        wait_for(lambda: asked("select where to_regclass('wherry_bench.worker') is not null"))
        wait_for(lambda: asked("select from wherry_bench.worker"), seconds=60)

        process.kill()

        others = "select from pg_stat_activity where datname = current_database()"
        wait_for(lambda: not asked(f"{others} and pid <> pg_backend_pid()"), seconds=20)


def test_a_schema_that_was_there_is_refused_and_stays(
    dsn: str, outside: psycopg.Connection[Any]
) -> None:
    outside.execute("create schema wherry_bench_limit")

    done = run("limit", "--dsn", dsn, "--yes")

    assert done.returncode == 2
    assert 'drop schema if exists "wherry_bench_limit" cascade;' in done.stderr
    assert ("schema", "wherry_bench_limit") in whole(outside)


def test_somebodys_database_gets_no_load_unasked(
    dsn: str, outside: psycopg.Connection[Any]
) -> None:
    done = run("limit", "--dsn", dsn)

    assert done.returncode == 2
    assert "wherry_bench" in done.stderr
    assert "--yes" in done.stderr


def test_two_benchmarks_do_not_measure_one_another(
    dsn: str, outside: psycopg.Connection[Any]
) -> None:
    with measuring(dsn, outside):
        done = run("limit", "--dsn", dsn, "--yes")

    assert done.returncode == 2
    assert "another benchmark" in done.stderr


def test_a_server_is_no_place_to_measure() -> None:
    done = run("limit", "--dsn", "grpc://127.0.0.1:1", "--yes")

    assert done.returncode == 2
    assert "not through a server" in done.stderr


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_number_that_leaves_nothing_to_measure_is_refused_before_the_database(name: str) -> None:
    for option in importlib.import_module(BENCHMARKS[name].module).OPTIONS:
        # What stands beside the measured tasks may be nothing.
        if option.name in ("delayed", "low", "finished"):
            continue

        said = CliRunner().invoke(bench, [name, option.opts[0], "0"])

        assert said.exit_code == 2
        assert f"Invalid value for '{option.opts[0]}'" in said.output
