"""The reference has the verbs, the reasons and the limits that the code has."""

from __future__ import annotations

import re
from pathlib import Path

from wherry.config import DEFAULT_HTTP_ADDRESS, ServerSettings
from wherry.server import problems
from wherry.server.http.operations import OPERATIONS

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "docs" / "reference" / "http.md").read_text()


def test_the_reference_has_every_verb_with_its_address() -> None:
    rows = re.findall(r"^\| `(\w+)` \| `(\w+) (/\S+)` \|", TEXT, re.MULTILINE)

    assert rows == [(each.rpc, each.method, each.path) for each in OPERATIONS]


def test_the_reference_has_every_reason_with_its_status() -> None:
    said = {
        (reason, int(status))
        for statuses, reasons in re.findall(
            r"^\| ([\d, ]+) \| (`[A-Z_`, ]+`) \|", TEXT, re.MULTILINE
        )
        for status in statuses.split(", ")
        for reason in re.findall(r"`(\w+)`", reasons)
    }
    of_the_service = {(reason, status) for _, reason, _, status in problems._TABLE}
    of_http = {
        (reason, int(status))
        for path in (ROOT / "src" / "wherry" / "server" / "http").glob("*.py")
        for status, reason in re.findall(r'Refused\(\s*(\d+),\s*"([A-Z_]+)"', path.read_text())
    }

    assert len(of_http) > 10
    assert (of_the_service | of_http | {("INTERNAL", 500)}) - said == set()
    assert {reason for reason, _ in said} == {
        reason for reason, _ in of_the_service | of_http | {("INTERNAL", 500)}
    }


def test_the_reference_has_the_limits() -> None:
    settings = ServerSettings()

    for limit in (
        f"`{DEFAULT_HTTP_ADDRESS}`",
        f"{settings.request_limit_bytes // 1024 // 1024} MiB",
        f"{settings.batch_limit:,} items",
        f"{settings.heartbeat_limit:,} leases",
        f"after {settings.request_timeout.total_seconds():g} s",
        f"up to {settings.longest_wait.total_seconds():g} s",
    ):
        assert limit in TEXT
