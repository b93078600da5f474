"""Servers that are killed under their workers: nothing is lost, nothing is completed twice."""

from __future__ import annotations

import signal
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import wherry
from tests.e2e.proxy import Proxy
from tests.e2e.servers import Fleet, Notes, wait_until_up
from tests.facts import wait_for

CONCURRENCY = 5
OPTIONS = f"--concurrency {CONCURRENCY} --lease-for 8s"


def enqueued(address: str, tasks: int, *, seconds: float = 0.0) -> None:
    """Store tasks through a server."""
    with wherry.App(address) as app:
        for first in range(0, tasks, 1000):
            last = min(tasks, first + 1000)
            app.enqueue_many(
                {"type": "effect", "payload": {"n": n, "seconds": seconds}}
                for n in range(first, last)
            )


def check_once(notes: Notes, tasks: int, *, most_lost: int) -> None:
    """Check that all ended once, and that what began again did so for a reason that is on record.

    A lease lets its holder begin once. Who begins once more has a new lease, and the old one had
    run out before its outcome could be told.
    """
    rows = notes.ask("select id, attempts from wherry.finished where state = 'succeeded'")
    attempts = dict(rows)
    assert (len(rows), len(attempts)) == (tasks, tasks)
    assert notes.ask("select count(*) from wherry.live") == [(0,)]
    leases = Counter((note.task, note.token) for note in notes.all())
    assert leases.most_common(1)[0][1] == 1
    begun = Counter(task for task, _ in leases)
    assert set(begun) == set(attempts)
    history = notes.ask("select task_id, outcome from wherry.attempt")
    assert {outcome for _, outcome in history} <= {"lost"}
    lost = Counter(task for task, _ in history)
    assert all(attempts[task] == times + 1 for task, times in lost.items())
    assert all(times <= lost[task] + 1 for task, times in begun.items())
    assert lost.total() <= most_lost


def test_a_server_killed_in_the_middle_loses_nothing_and_completes_nothing_twice(
    fleet: Fleet, dsn: str, notes: Notes
) -> None:
    """B3, A5: 4 remote workers, 10,000 tasks, and the server back on its port without them."""
    tasks = 10_000
    server = fleet.server(dsn)
    workers = [
        fleet.worker(server.address, notes=dsn, name=f"w{n}", options=OPTIONS, wait=False)
        for n in range(4)
    ]
    wait_until_up(*workers)
    enqueued(server.address, tasks)
    for done in (1_000, 4_000):
        wait_for(lambda done=done: notes.done() >= done, seconds=30)  # type: ignore[misc]
        server.kill()
        assert notes.done() < tasks
        server = fleet.server(dsn, like=server)

    notes.wait_until_done(tasks, seconds=60)

    # At a kill a worker holds what it runs, what it prefetched, and what it could not report yet.
    check_once(notes, tasks, most_lost=tasks // 5)
    for worker in workers:
        assert worker.runs
        worker.send(signal.SIGTERM)
    assert [worker.ended(within=15) for worker in workers] == [0] * 4


def test_of_two_servers_one_is_killed_and_the_other_one_finishes_everything(
    fleet: Fleet, dsn: str, notes: Notes
) -> None:
    """B3: workers of the one that is away wait for it, and go on with it when it is back."""
    tasks = 2_000
    options = f"--concurrency {CONCURRENCY} --lease-for 3s"
    servers = [fleet.server(dsn), fleet.server(dsn)]
    workers = [
        fleet.worker(servers[n % 2].address, notes=dsn, name=f"w{n}", options=options, wait=False)
        for n in range(4)
    ]
    wait_until_up(*workers)
    enqueued(servers[0].address, tasks, seconds=0.005)
    both = {str(workers[n].process.pid) for n in (0, 1)}
    wait_for(lambda: {note.worker for note in notes.all()} >= both, seconds=30)
    wait_for(lambda: notes.done() >= tasks // 10, seconds=30)

    servers[0].kill()
    assert notes.done() < tasks
    notes.wait_until_done(tasks, seconds=40)
    check_once(notes, tasks, most_lost=tasks // 2)
    servers[1].send(signal.SIGTERM)
    assert servers[1].ended(within=10) == 0
    fleet.server(dsn, like=servers[0])
    with wherry.App(dsn) as app:
        last = app.enqueue("effect", {"n": 0}).id
    wait_for(lambda: notes.of(last), seconds=20, what="the workers of the first are back")

    assert all(worker.runs for worker in workers)
    assert notes.of(last)[0].worker in {str(workers[n].process.pid) for n in (0, 2)}


def test_workers_behind_a_balancer_do_not_care_which_server_they_talk_to(
    fleet: Fleet, dsn: str, notes: Notes
) -> None:
    """B3: leased by one, beaten and reported through another, and each of them killed once."""
    tasks, long = 1_500, 10
    servers = [fleet.server(dsn), fleet.server(dsn)]
    with Proxy(*(server.grpc for server in servers)) as balancer:
        workers = [
            fleet.worker(
                balancer.address, notes=dsn, name=f"w{n}", options="--lease-for 6s", wait=False
            )
            for n in range(2)
        ]
        wait_until_up(*workers)
        with wherry.App(dsn) as database:
            # Longer than a lease, and longer than one may stay unconfirmed.
            ids = [database.enqueue("effect", {"n": n, "seconds": 8}).id for n in range(long)]
        wait_for(lambda: notes.count() == long, seconds=20)
        enqueued(balancer.address, tasks, seconds=0.05)
        for n, done in enumerate((200, 600)):
            wait_for(lambda done=done: notes.done() >= done, seconds=30)  # type: ignore[misc]
            servers[n].kill()
            servers[n] = fleet.server(dsn, like=servers[n])

        notes.wait_until_done(tasks + long, seconds=40)

        check_once(notes, tasks + long, most_lost=tasks // 5)
        begun = Counter(note.task for note in notes.all())
        assert [begun[id_] for id_ in ids] == [1] * long
        assert all(worker.runs for worker in workers)


def test_a_server_that_is_restarted_in_good_order_costs_no_attempt(
    fleet: Fleet, dsn: str, notes: Notes
) -> None:
    """B3: a signal in the middle of a run, twice; what it had leased is delivered or given back."""
    tasks = 4_000
    server = fleet.server(dsn)
    workers = [
        fleet.worker(server.address, notes=dsn, name=f"w{n}", options="--concurrency 5", wait=False)
        for n in range(3)
    ]
    wait_until_up(*workers)
    # Of tasks that take no time the workers would lease all ahead, and run them without a server.
    enqueued(server.address, tasks, seconds=0.01)
    for done in (300, 800):
        wait_for(lambda done=done: notes.done() >= done, seconds=30)  # type: ignore[misc]
        server.send(signal.SIGTERM)
        assert server.ended(within=25) == 0, server.log
        assert notes.done() < tasks
        server = fleet.server(dsn, like=server)

    # Sooner than any lease of 30 s would run out.
    notes.wait_until_done(tasks, seconds=25)

    check_once(notes, tasks, most_lost=0)
    assert all(worker.runs for worker in workers)


def test_a_server_that_hangs_costs_a_handler_its_lease_and_the_handler_knows_in_time(
    fleet: Fleet, dsn: str, notes: Notes
) -> None:
    """L8: it is stopped before its task can begin elsewhere, though nobody tells it anything."""
    server = fleet.server(dsn)
    worker = fleet.worker(server.address, notes=dsn, options="--lease-for 2s")
    with wherry.App(dsn) as database:
        id_ = database.enqueue("effect", {"n": 1, "seconds": 3}).id
        wait_for(lambda: notes.of(id_), seconds=20)

        server.send(signal.SIGSTOP)
        worker.says("its lease cannot be extended in time", seconds=20)
        server.send(signal.SIGCONT)
        notes.wait_until_done(1, seconds=25)

        task = database.get_task(id_)
    assert task is not None
    first, *again = notes.of(id_)
    # The lease had to run out, and maintenance to take the task back.
    assert again[0].at - first.at > 2
    assert {attempt.outcome for attempt in task.history} == {"lost"}
    assert task.attempts == len(task.history) + 1 == len(again) + 1
    assert worker.runs


def test_who_waits_for_a_result_goes_on_waiting_through_a_restart(
    fleet: Fleet, dsn: str, notes: Notes
) -> None:
    """B3: neither the App nor the worker has to be started again."""
    server = fleet.server(dsn)
    fleet.worker(server.address, notes=dsn)
    with wherry.App(server.address) as remote, ThreadPoolExecutor() as pool:
        first = remote.enqueue("squares", {"n": 3}, delay=2)
        waiting = pool.submit(first.result, timeout=40)

        server.kill()
        fleet.server(dsn, like=server)

        assert waiting.result(40) == 9
        assert remote.enqueue("squares", {"n": 4}).result(timeout=20) == 16
