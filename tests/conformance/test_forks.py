"""Programs that fork beside gRPC: neither side hangs, crashes, or uses what the other has."""

from __future__ import annotations

from tests.conformance.programs import CALLS, program


async def test_a_forked_child_makes_a_channel_of_its_own(address: str) -> None:
    """RUN-01. Right after it was closed, when some children hung while gRPC ended its threads."""
    text = (
        CALLS
        + """
async def twice():
    ids = [(await app.aenqueue("t")).id for _ in range(2)]
    await app.aclose()
    return ids

print("parent", app.enqueue("t").id)
asyncio.run(twice())
app.close()
sys.stdout.flush()
import warnings
warnings.simplefilter("ignore", DeprecationWarning)
if not (child := os.fork()):
    print("child", app.enqueue("t").id, asyncio.run(twice()), flush=True)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print("parent", app.enqueue("t").id)
app.close()
"""
    )
    assert (await program(text, address)).split("\n") == [
        "parent 1",
        "child 4 [5, 6]",
        "parent 7",
        "",
    ]


async def test_a_child_forked_beside_an_open_loop_can_block_and_is_told_not_to_await(
    address: str,
) -> None:
    """RUN-01. The parent's awaited channel has a thread that no child has: it hung, or crashed."""
    text = (
        CALLS
        + """
import threading, warnings
warnings.simplefilter("ignore", DeprecationWarning)
opened, done = threading.Event(), threading.Event()

async def meanwhile():
    await app.aenqueue("t")
    opened.set()
    await asyncio.to_thread(done.wait)
    print("parent", (await app.aenqueue("t")).id)
    await app.aclose()

loop = threading.Thread(target=asyncio.run, args=(meanwhile(),))
loop.start()
opened.wait()
if not (child := os.fork()):
    print("child", app.enqueue("t").id)
    try:
        asyncio.run(app.aenqueue("t"))
    except wherry.ConfigError as error:
        print(str(error).partition(", beside")[0])
    app.close()
    # As after all of a program, when the interpreter frees what it has.
    raise SystemExit
try:
    assert os.waitpid(child, 0)[1] == 0
finally:
    done.set()
    loop.join()
"""
    )
    assert (await program(text, address)).split("\n") == [
        "child 2",
        "this process was forked from one that had an awaited connection to a server open",
        "parent 3",
        "",
    ]


async def test_a_fork_waits_for_the_calls_of_other_threads_and_they_for_it(address: str) -> None:
    """RUN-01. gRPC starts its threads again in a child only if it was at rest."""
    text = (
        CALLS
        + """
import threading, time, warnings
import concurrent.futures.thread  # which has such hooks itself
warnings.simplefilter("ignore", DeprecationWarning)
seen, begun, leave, others = [], threading.Event(), threading.Event(), []

def blocks():
    app.enqueue("t")
    seen.append("blocked")

async def awaits():
    await app.aenqueue("t")
    seen.append("awaited")
    await app.aclose()

def forking():
    # Hooks go the other way around: gRPC is not loaded yet, so that ours are done by now.
    seen.append("forking")
    for what in (blocks, lambda: asyncio.run(awaits())):
        others.append(threading.Thread(target=what))
        others[-1].start()
    deadline = time.monotonic() + 30
    while not forks._gate.waiting and time.monotonic() < deadline:
        time.sleep(0.001)

os.register_at_fork(before=forking, after_in_parent=lambda: seen.append("forked"))
app.enqueue("t")
from wherry.transport.grpc import forks

def calls():
    with forks.under_way():
        begun.set()
        leave.wait()
        seen.append("answered")

others.append(threading.Thread(target=calls))
others[0].start()
begun.wait()

def answers():
    gate = forks._gate
    while not gate.forks:
        time.sleep(0.001)
    leave.set()

threading.Thread(target=answers, daemon=True).start()
if not (child := os.fork()):
    assert app.enqueue("t").created
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
for each in others:
    each.join()
print(seen[:3], sorted(seen[3:]))
app.close()
"""
    )

    assert await program(text, address) == (
        "['answered', 'forking', 'forked'] ['awaited', 'blocked']\n"
    )
