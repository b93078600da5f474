"""`wherry dead requeue --merge-payload`: what all of them lack is given to all of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Answer
from tests.pg.support import Session
from wherry import App

Cli = Callable[..., Answer]


def died(app: App, n: int) -> list[int]:
    ids = [app.enqueue("mail", {"n": k, "old": 1}, max_attempts=1).id for k in range(n)]
    for lease in app.lease(worker="w", max_tasks=n):
        app.fail(lease, "no region")
    return ids


def test_a_group_gets_what_it_lacks(cli: Cli, app: App, tmp_path: Path) -> None:
    ids = died(app, 3)
    [group] = app.group_dead_tasks().groups
    patch = '{"region": "eu", "big": 18446744073709551617, "old": null}'
    (tmp_path / "p.json").write_text(patch)
    asked = ("dead", "requeue", "--fingerprint", group.fingerprint, "--merge-payload")

    looked = cli(*asked, patch, "--dry-run")
    done = cli(*asked, f"@{tmp_path}/p.json", "--yes", "--per-second", "100")

    assert looked.out.startswith("would requeue 3 tasks; nothing was changed")
    assert (done.code, done.out) == (0, "requeued 3 tasks\n")
    for n, id in enumerate(ids):
        task = app.get_task(id)
        assert task is not None
        assert task.payload == {"n": n, "region": "eu", "big": 18446744073709551617}


def test_tasks_that_take_no_patch_are_named(cli: Cli, app: App, session: Session) -> None:
    good, bad = died(app, 2)
    session.rows("update wherry.finished set payload = '[]' where id = %s", bad)

    done = cli("tasks", "requeue", "--state", "dead", "--yes", "--merge-payload", '{"a": 1}')

    assert (done.code, done.out.splitlines()[0]) == (1, "requeued 1 task")
    assert "no JSON objects" in done.out + done.err
    assert str(bad) in done.out + done.err
    assert [task.id for task in app.list_tasks(state="queued").tasks] == [good]


@pytest.mark.parametrize(
    "wrong", ["[1]", "{", '{"a": NaN}', '{"a": 1, "a": 2}', "\ufeff{}", '{"a": "\\ud800"}']
)
def test_what_is_no_patch_is_refused_before_anybody_is_asked(
    cli: Cli, app: App, wrong: str
) -> None:
    [id] = died(app, 1)

    done = cli("dead", "requeue", "--all", "--yes", "--merge-payload", wrong)

    assert done.code != 0
    assert "payload" in done.err
    assert "merge" in done.err
    assert [task.id for task in app.list_tasks(state="dead").tasks] == [id]
