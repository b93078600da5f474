"""A child that is forked while other threads of its parent call the same App."""

from __future__ import annotations

from tests.conformance.programs import program

HELD = """
import os, signal, sys, threading, warnings
import wherry
from wherry import own_lock
from wherry.telemetry.meters import Meters
from wherry.worker.context import Context

warnings.simplefilter("ignore", DeprecationWarning)
app = wherry.App(sys.argv[1])
app.meters = Meters()
print("parent", app.enqueue("t").id)
locks = [own.lock for own in own_lock._all]
held, done = threading.Event(), threading.Event()

def hold():
    for lock in locks:
        lock.acquire()
    held.set()
    done.wait()
    for lock in locks:
        lock.release()

other = threading.Thread(target=hold)
other.start()
held.wait()
sys.stdout.flush()
if not (child := os.fork()):
    signal.alarm(20)
    Context(app, None).wait_cancelled(0.001)
    print("child", app.enqueue("t").id, len(app.meters.read()) > 0, flush=True)
    os._exit(0)
ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
done.set()
other.join()
print("ended", ended, "locks", len(locks))
print("parent", app.enqueue("t").id)
app.close()
"""


async def test_a_child_does_not_wait_for_what_threads_of_its_parent_held(dsn: str) -> None:
    """RUN-01. One in a hundred hung for ever beside threads that enqueued thousands."""
    assert (await program(HELD, dsn)).split("\n") == [
        "parent 1",
        "child 10 True",
        "ended 0 locks 4",
        "parent 2",
        "",
    ]
