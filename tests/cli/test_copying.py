"""`wherry tasks copy`: with another payload, in another queue, in the place of the old one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.cli.conftest import Answer
from wherry import App

Cli = Callable[..., Answer]


def died(app: App) -> int:
    id = app.enqueue("mail", {"to": "nobody", "n": 9007199254740993}, max_attempts=1).id
    [lease] = app.lease(worker="w")
    app.fail(lease, "no such address")
    return id


def test_a_task_is_copied_as_it_is(cli: Cli, app: App) -> None:
    id = died(app)

    done = cli("tasks", "copy", str(id), "--queue", "slow", "--delay", "1h")

    [copy] = app.list_tasks(queue="slow").tasks
    assert (done.code, done.out) == (0, f"stored task {copy.id} after task {id}\n")
    assert (copy.queue, copy.payload) == ("slow", {"to": "nobody", "n": 9007199254740993})
    assert (copy.run_after - copy.created_at).total_seconds() == 3600
    assert app.get_task(id) is not None


def test_a_mended_payload_comes_from_the_command_line_stdin_or_a_file(
    cli: Cli, app: App, tmp_path: Path
) -> None:
    id = died(app)
    mended = '{"to": "ada", "n": 9007199254740993}'
    (tmp_path / "p.json").write_text(mended)

    for argument, stdin in ((mended, b""), ("-", mended.encode()), (f"@{tmp_path}/p.json", b"")):
        done = cli("tasks", "copy", str(id), "--payload", argument, "--json", stdin=stdin)

        assert done.code == 0, done.err
        copy = app.get_task(done.json["id"])
        assert copy is not None
        assert copy.payload == {"to": "ada", "n": 9007199254740993}
        assert (done.json["copy_of"], done.json["purged"]) == (id, False)


def test_the_old_task_goes_and_the_audit_says_why(cli: Cli, app: App) -> None:
    id = died(app)

    done = cli("tasks", "copy", str(id), "--purge", "--reason", "ticket 7")

    [copy] = app.list_tasks().tasks
    told = f"stored task {copy.id} after task {id}, which is gone\n"
    assert (done.code, done.out, copy.id != id) == (0, told, True)
    [entry] = cli("audit", "list", "--json").json["audit"]
    assert (entry["action"], entry["count"], entry["reason"]) == ("copy_task", 1, "ticket 7")
    assert entry["target"] == {"ids": [id], "purged": True, "stored": copy.id}


def test_what_cannot_be_copied_is_told(cli: Cli, app: App) -> None:
    id = app.enqueue("mail").id

    for arguments, told in (
        ((str(id), "--purge"), f"only what has ended is taken away, and task {id} is queued"),
        ((str(id), "--payload", "{"), "--payload: is broken JSON"),
        ((str(id), "--payload", "[]"), "is no JSON object"),
        ((str(id), "--queue", "*"), "'*' stands for all queues"),
        ((str(id + 1),), f"{id + 1}"),
    ):
        done = cli("tasks", "copy", *arguments)

        assert done.code != 0
        assert told in done.err
    assert [task.id for task in app.list_tasks().tasks] == [id]
