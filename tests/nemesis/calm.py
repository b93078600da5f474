"""A stage in calm: one server, one pourer and two workers, until somebody hurts one of them."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import LiteralString

from psycopg.conninfo import make_conninfo

from tests.nemesis import audit, bulk_audit
from tests.nemesis.bulk import drop
from tests.nemesis.cast import Actor, Cast
from tests.nemesis.node import Node
from tests.nemesis.server import free_port
from tests.nemesis.wire import Wire
from wherry.migrations import migrate
from wherry.testing.postgres import fast_folder

LEAVE_SECONDS = 60.0
DISK_BYTES = 1200 * 1024 * 1024
SMALL_WAL = ("max_wal_size=96MB", "wal_keep_size=0")
_FEED: LiteralString = """
select stored.id, names.name
  from (select n, 'feeder-' || n as name
          from generate_series(%(first)s::integer, %(last)s::integer) as n) as names
 cross join lateral wherry.enqueue(
       'bulk', %(type)s, jsonb_build_object('n', names.name), max_attempts => 500) as stored
"""


class Calm:
    """One server, one pourer and two workers, all behind a wire but the observer."""

    def __init__(self, stack: ExitStack) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="nemesis-history-"))
        stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
        self.place = Path(tempfile.mkdtemp(prefix="nemesis-node-", dir=fast_folder())).resolve()
        stack.callback(shutil.rmtree, self.place, ignore_errors=True)
        self.place.chmod(0o711)
        self.has_own_disk = self._mount(stack)
        self._fed = 0
        self.node = Node(self.place, settings=SMALL_WAL)
        self.node.make()
        self.node.start()
        stack.callback(lambda: self.node.quit())
        migrate(self.node.dsn)
        with self.node.connect() as connection:
            audit.install(connection)
            bulk_audit.install(connection)
        front = free_port()
        self.wire = stack.enter_context(Wire(front, self.node.port))
        dsn = make_conninfo(self.node.dsn, port=front)
        actors = [Actor("drainer-1"), Actor("drainer-2"), Actor("pourer-1")]
        self.cast = Cast(self.folder, dsn, dsn, 0, "", 1, None, actors)
        stack.callback(self.cast.close)
        self.cast.start(actors)
        self.wait_for_tasks(1000)

    def _mount(self, stack: ExitStack) -> bool:
        """Give the data a disk of its own, which can be filled; only root can."""
        size = f"size={DISK_BYTES}"
        mounting = ["mount", "-t", "tmpfs", "-o", f"{size},mode=711", "none", str(self.place)]
        if os.geteuid() != 0 or subprocess.run(mounting, capture_output=True).returncode:
            return False
        stack.callback(subprocess.run, ["umount", "-l", str(self.place)], capture_output=True)
        return True

    def ended(self) -> int:
        """How many tasks have ended."""
        return int(self.node.value("select count(*) from wherry.finished"))

    def wait_for_tasks(self, more: int) -> None:
        """Wait until so many more have ended, from when it can be asked."""
        before: list[int] = []

        def have_ended() -> bool:
            before.append(self.ended())
            return before[-1] >= before[0] + more

        self.node.wait_for(have_ended)

    def feed(self, n: int) -> None:
        """Enqueue some past the wire, as a pourer would that none of the faults hits."""
        first, self._fed = self._fed, self._fed + n
        with self.node.connect() as connection:
            rows = connection.execute(
                _FEED, {"type": drop.name, "first": first, "last": self._fed - 1}
            ).fetchall()
        with (self.folder / "feeder.asked.tsv").open("a") as asked:
            asked.writelines(f"feeder\t{number}\t1\n" for number in range(first, self._fed))
        with (self.folder / "feeder.told.tsv").open("a") as told:
            told.writelines(f"feeder\t{id_}\t{name}\n" for id_, name in rows)

    def told(self) -> int:
        """How much the pourer has been told."""
        return sum(path.stat().st_size for path in self.folder.glob("pourer-*.told.tsv"))

    def settle(self) -> dict[str, list[str]]:
        """Let everything end, and judge."""
        self.cast.tell_of_end()
        left = self.cast.wait("pourer", seconds=LEAVE_SECONDS)
        self.node.wait_for(lambda: self.node.value("select count(*) from wherry.live") == 0)
        for actor in self.cast.of("drainer"):
            self.cast.dismiss(actor)
        left += self.cast.wait("drainer", seconds=LEAVE_SECONDS)
        with self.node.connect() as connection:
            broken, _ = bulk_audit.judge(connection, self.folder)
        return broken | ({"O2 all ends": left} if left else {})
