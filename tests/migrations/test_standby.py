"""A server in recovery takes no migration and no worker, and says so before anything is tried."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.migrations.support import wait_until
from wherry import migrations
from wherry.doctor.examine import examine
from wherry.doctor.finding import Verdict
from wherry.doctor.guard import require_fit
from wherry.embedded import acquire
from wherry.errors import ReadOnly

SECONDS_TO_STOP = 30
# A standby refuses to be smaller than its primary was.
AT_LEAST = ("-c", "max_connections=1000")


@pytest.fixture(scope="module")
def standby() -> Iterator[str]:
    """The DSN of a migrated server that was stopped and came back in recovery."""
    with tempfile.TemporaryDirectory(prefix="wherry-standby-") as made:
        # As root the server runs as somebody else, who has to reach it.
        place = Path(made)
        place.chmod(0o711)
        with acquire(place / "home", settings={"fsync": False}) as primary:
            migrations.migrate(primary.dsn)
            dsn, data, program = primary.dsn, primary.data, primary.bin / "postgres"
        wait_until(lambda: not (data / "postmaster.pid").exists())
        (data / "standby.signal").touch()
        folder = str(conninfo_to_dict(dsn)["host"])
        owner = data.stat()
        is_root = os.geteuid() == 0
        with (place / "log").open("wb") as log:
            server = subprocess.Popen(
                [program, "-D", data, "-k", folder, "-c", "listen_addresses=", *AT_LEAST],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                user=owner.st_uid if is_root else None,
                group=owner.st_gid if is_root else None,
                extra_groups=[] if is_root else None,
            )
            try:
                wait_until(lambda: answers(dsn) or server.poll() is not None)
                assert server.poll() is None, (place / "log").read_text()
                yield make_conninfo(dsn, application_name="test")
            finally:
                server.terminate()
                server.wait(timeout=SECONDS_TO_STOP)


def answers(dsn: str) -> bool:
    try:
        with psycopg.connect(dsn):
            return True
    except psycopg.OperationalError:
        return False


def test_migrating_a_standby_fails_at_once_and_names_what_it_is(standby: str) -> None:
    """MIG-13: 'connected to a read-only server', not an error from half-way in."""
    for call in (migrations.migrate, migrations.dry_run):
        with pytest.raises(ReadOnly, match="connected to a read-only server: it is a standby"):
            call(standby)


def test_a_standby_is_good_enough_to_look_at(standby: str) -> None:
    """MIG-13: what only reads works there."""
    states = migrations.status(standby)

    assert {state.state for state in states} == {"applied"}
    assert migrations.check(standby) == len(states)


def test_a_standby_is_no_place_to_start(standby: str) -> None:
    """MIG-13: it is told from other servers that cannot be written to."""
    with pytest.raises(
        ReadOnly, match="connected to a read-only server: it is a standby"
    ) as caught:
        require_fit(standby, schema="wherry", allow_unsafe=False)

    assert "target_session_attrs=read-write" in str(caught.value)


def test_the_doctor_looks_at_a_standby_and_says_what_it_is(standby: str) -> None:
    """MIG-13."""
    diagnosis = examine(standby, schema="wherry")

    assert diagnosis.of(Verdict.UNKNOWN) == ()
    assert "writing" in {finding.check for finding in diagnosis.of(Verdict.PROBLEM)}
