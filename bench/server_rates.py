"""How much goes through a server, beside the same without one.

The three processes that share the machine are told apart: the client, the server, PostgreSQL.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from time import monotonic, sleep
from typing import Any

from wherry.bench import drain, handlers
from wherry.bench.children import Children, Ready
from wherry.bench.errors import BenchmarkFailed
from wherry.bench.marks import Marks
from wherry.bench.place import Place
from wherry.bench.server_process import Served, enqueuing
from wherry.commands.leases import CompleteTasks
from wherry.domain.lease import Reported
from wherry.domain.outcome import Completed

BATCH = 1000
LEASED = 100
# One caller after the other, and so many threads that each wait for their own answer.
THREADS = {"one by one": 1, "one by one, 8 threads": 8}
KINDS = ("batch", *THREADS)


def produce(ready: Ready, *, way: str, address: str, kind: str, seconds: float) -> dict[str, Any]:
    """Enqueue for *seconds*; tell how many that made."""
    batch = kind == "batch"
    threads = THREADS.get(kind, 1)
    step = BATCH if batch else 1
    # HTTP has a connection a thread; of an App all threads share the pool or the channel.
    made_of = [enqueuing(way, address, batch=batch) for _ in range(threads)]
    far = 10_000_000

    def work(number: int) -> int:
        enqueue, _ = made_of[number]
        n, until = 0, monotonic() + seconds
        while monotonic() < until:
            first = number * far + step + n
            enqueue(range(first, first + step))
            n += step
        return n

    for number, (enqueue, _) in enumerate(made_of):
        enqueue(range(number * far, number * far + step))
    ready()
    began = monotonic()
    with ThreadPoolExecutor(threads) as pool:
        made = sum(pool.map(work, range(threads)))
    took = monotonic() - began
    for _, close in made_of:
        close()
    return {"made": made, "seconds": took, "in_all": made + threads * step}


def enqueue_run(
    place: Place, served: Served, *, way: str, kind: str, seconds: float
) -> dict[str, float]:
    """Let one process enqueue one way, and count what is stored."""
    with Children() as children:
        child = children.start(
            "bench.server_rates:produce",
            way=way, address=served.to(way, place.dsn), kind=kind, seconds=seconds,
        )  # fmt: skip
        child.wait_until_ready()
        before, cpu = place.read(), served.cpu()
        child.go()
        result = child.result()
        spent, cpu = place.spent(before), served.cpu() - cpu
    [[found, distinct]] = place.query(
        "select count(*), count(distinct payload::jsonb ->> 'n') from {schema}.tasks"
    )
    if (found, distinct) != (result["in_all"], result["in_all"]):
        raise BenchmarkFailed(f"{result['in_all']} enqueued, {found} are stored, {distinct} unlike")
    made = result["made"]
    return {
        "tasks/s": made / result["seconds"],
        "client us": result["cpu"] / made * 1e6,
        "server us": cpu / made * 1e6,
        "postgres us": spent.server_cpu / made * 1e6,
    }


def consume(ready: Ready, *, address: str, tasks: int) -> dict[str, Any]:
    """Lease by the hundred and complete what was leased, until nothing is there."""
    app = handlers.app
    app.move(address)
    seen: list[int] = []

    def turn() -> int:
        leases = app.lease(worker="bench", queues=[handlers.QUEUE], max_tasks=LEASED, lease_for=300)
        if leases:
            outcomes = tuple(Completed(lease, None) for lease in leases)
            answers = app.carry(CompleteTasks(outcomes))
            if set(answers) != {Reported.DONE}:
                raise BenchmarkFailed(f"not all were done: {answers}")
            seen.extend(json.loads(lease.payload_text)["n"] for lease in leases)
        return len(leases)

    turn()
    ready()
    began, done = monotonic(), 0
    while more := turn():
        done += more
    took = monotonic() - began
    app.close()
    if sorted(seen) != list(range(tasks)):
        raise BenchmarkFailed(f"lost or doubled: {len(seen)} of {tasks} were leased")
    return {"done": done, "seconds": took}


def lease_run(place: Place, served: Served, *, way: str, tasks: int) -> dict[str, float]:
    """Lease and complete all of a full queue, a hundred at a time, by one client."""
    drain.fill(place, tasks)
    place.query("vacuum analyze {schema}.live")
    with Children() as children:
        child = children.start(
            "bench.server_rates:consume", address=served.to(way, place.dsn), tasks=tasks
        )
        child.wait_until_ready()
        before, cpu = place.read(), served.cpu()
        child.go()
        result = child.result()
        spent, cpu = place.spent(before), served.cpu() - cpu
    place.must_have_succeeded(tasks)
    done = result["done"]
    return {
        "tasks/s": done / result["seconds"],
        "client us": result["cpu"] / done * 1e6,
        "server us": cpu / done * 1e6,
        "postgres us": spent.server_cpu / done * 1e6,
    }


def drain_run(
    place: Place, served: Served, *, way: str, tasks: int, settings: str
) -> dict[str, float]:
    """Drain a full queue of tasks that do nothing by one worker process."""
    drain.fill(place, tasks)
    place.query("vacuum analyze {schema}.live")
    with Marks.made(tasks) as marks:
        with Children() as children:
            child = children.start(
                "wherry.bench.worker:work",
                dsn=served.to(way, place.dsn), marks=str(marks.path), tasks=tasks, process=0,
                until_empty=True, **drain.SETTINGS[settings],
            )  # fmt: skip
            child.wait_until_ready()
            before, cpu = place.read(), served.cpu()
            child.go()
            give_up_at = monotonic() + 60 + tasks / 300
            while marks.entered() < tasks:
                if monotonic() > give_up_at:
                    raise BenchmarkFailed(f"{marks.entered()} of {tasks} tasks ran in time")
                sleep(0.005)
            ended = place.wait_until_drained()
            result = child.result()
        spent, cpu = place.spent(before), served.cpu() - cpu
        marks.must_be_once(tasks)
        place.must_have_succeeded(tasks)
        return {
            "tasks/s": tasks / (ended - marks.first(tasks)),
            "client us": result["cpu"] / tasks * 1e6,
            "server us": cpu / tasks * 1e6,
            "postgres us": spent.server_cpu / tasks * 1e6,
        }
