"""The reference of gRPC names what there is, and no other."""

from __future__ import annotations

import re
from pathlib import Path

import grpc

from wherry.server import problems
from wherry.wire.v1 import task_queue_pb2

PAGE = (Path(__file__).resolve().parents[3] / "docs/reference/grpc.md").read_text()
METHODS = {
    method.name for method in task_queue_pb2.DESCRIPTOR.services_by_name["TaskQueue"].methods
}


def rows(title: str) -> list[list[str]]:
    """Return the cells of the table under *title*, without its head."""
    section = PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


def named(cells: list[str]) -> list[str]:
    return [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]


def test_every_rpc_is_explained_once() -> None:
    assert sorted(named([row[0] for row in rows("The calls")])) == sorted(METHODS)


def test_of_every_rpc_it_is_said_whether_it_may_be_sent_again() -> None:
    assert sorted(named([row[0] for row in rows("Sending again")])) == sorted(METHODS)


def test_every_reason_stands_with_its_status() -> None:
    told = {
        (row[0].strip("`"), reason) for row in rows("Status codes") for reason in named([row[1]])
    }

    known = {(status, reason) for _, reason, status, _ in problems._TABLE}
    assert told == known | {("INTERNAL", "INTERNAL")}
    assert {row[0].strip("`") for row in rows("Status codes")} <= set(grpc.StatusCode.__members__)
