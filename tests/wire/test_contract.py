"""The contract in proto/ keeps its promise to the clients of the released one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tools import proto


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the contract that may be changed."""
    return Path(shutil.copytree(proto.PROTO, tmp_path / "proto"))


def edit(folder: Path, file: str, *, old: str, new: str) -> None:
    path = folder / "wherry/v1" / file
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))


def test_the_contract_breaks_no_client_of_the_released_one() -> None:
    assert proto.contract() == 0


def test_a_new_field_breaks_nobody(copy: Path) -> None:
    edit(
        copy,
        "leases.proto",
        old="message ReleaseRequest {\n",
        new="message ReleaseRequest {\n  // Why.\n  string reason = 9;\n",
    )

    assert proto.contract(copy) == 0


@pytest.mark.parametrize(
    ("file", "old", "new", "complaint"),
    [
        (
            "leases.proto",
            "  // Its queue.\n  string queue = 3;\n",
            "",
            'Previously present field "3" with name "queue" on message "LeasedTask" was deleted',
        ),
        ("leases.proto", "int32 snoozes = 20;", "int64 snoozes = 20;", 'changed type from "int32"'),
        (
            "task_queue.proto",
            (
                "  // A worker says goodbye.\n"
                "  rpc LeaveWorker(LeaveWorkerRequest) returns (LeaveWorkerResponse);\n"
            ),
            "",
            'Previously present RPC "LeaveWorker"',
        ),
        (
            "tasks.proto",
            "STATE_CANCELED = 6;",
            "STATE_CANCELED = 7;",
            'Previously present enum value "6" on enum "State"',
        ),
        ("leases.proto", "  // Its type.\n  string type = 4;", "  string type = 4;", "comment"),
    ],
)
def test_what_would_break_a_client_or_has_no_comment_is_refused(
    copy: Path,
    file: str,
    old: str,
    new: str,
    complaint: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    edit(copy, file, old=old, new=new)

    assert proto.contract(copy) == 1
    assert complaint in capfd.readouterr().out
