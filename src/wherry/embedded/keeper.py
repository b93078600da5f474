"""The small process that keeps one embedded server: its parent, and the one who ends it.

Run as `python -m wherry.embedded.keeper HOME PROGRAMS VERSION SETTINGS`, never imported. It
answers once on its standard output, in JSON: `{"ready": true}` or `{"failed": why}`. It belongs
to no terminal and to none of the users, so that the server survives whoever happened to start it.

The server is stopped when `users.lock` can be had alone: then nobody uses it. The keeper keeps
that lock until it is gone itself, so who comes meanwhile waits, and then starts anew.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path

from wherry.embedded.cluster import make_data
from wherry.embedded.home import Home, Record
from wherry.embedded.identity import Identity, can_run, first_closed_folder, server_identity
from wherry.embedded.locks import open_lock, polls, try_exclusive
from wherry.embedded.mirror import mirror
from wherry.embedded.postmaster import Postmaster, find_orphan, launch
from wherry.embedded.sockets import drop_folder, dsn_for, make_folder, socket_in
from wherry.errors import EmbeddedError, EmbeddedStartFailed

# How soon the keeper sees that the last user is gone, or that the server died.
TICK_SECONDS = 0.2
TICK_BEFORE_READY_SECONDS = 0.01
# A server that dies this often while it is used is broken, and a restart does not mend it.
RESTARTS_LIMIT = 5
RESTARTS_WITHIN_SECONDS = 60.0
# Asked to end (the machine shuts down, a service manager stops the whole group), it lets users
# that were asked too finish what they do: a worker has 30 seconds for it.
GRACE_SECONDS = 40.0
LOG_LIMIT_BYTES = 8 * 1024 * 1024
LOG_LOOK_SECONDS = 30.0
OUTPUT = 2


class Keeper:
    """Keeps the server of one home until nobody uses it."""

    def __init__(
        self, home: Home, programs: Path, version: str, settings: dict[str, str], answer: int
    ) -> None:
        self.home = home
        self.programs = programs
        self.version = version
        self.settings = settings
        self.answer = answer
        self.data = home.data(int(version.partition(".")[0]))
        self.users = open_lock(home.lock("users"))
        self.lock = home.lock("server")
        self.stop_by: float | None = None
        self.ready = False
        self.began_at: list[float] = []
        self.log_looked_at = 0.0

    def run(self) -> None:
        """Start or adopt the server, keep it while it is used, stop it."""
        found = [self.home.data(major) for major in self.home.majors()]
        adopted = find_orphan(found, self.lock)
        if adopted is not None:
            note(f"took over the server that runs already (process {adopted.pid})")
        server = adopted or self.launch()
        while (way := self.reason_to_stop()) is None:
            if not server.alive():
                server = self.launch_again(server)
            elif not self.ready and server.ready():
                self.announce(server)
            self.bound_log()
            time.sleep(TICK_SECONDS if self.ready else TICK_BEFORE_READY_SECONDS)
        self.home.record.unlink(missing_ok=True)
        server.stop(first=way)
        drop_folder(self.home)

    def reason_to_stop(self) -> signal.Signals | None:
        """Return the signal to end the server with, if it is to end now."""
        try:
            swapped = not os.path.samestat(os.fstat(self.users), self.home.lock("users").lstat())
        except OSError:
            swapped = True
        if swapped:
            # The folder was removed or replaced: there is nothing left to write down properly.
            return signal.SIGQUIT
        late = self.stop_by is not None and time.monotonic() > self.stop_by
        return signal.SIGINT if late or try_exclusive(self.users) else None

    def ask_to_stop(self, _number: int, _frame: object) -> None:
        """End soon, also while the server is used; asked again, end now."""
        grace = GRACE_SECONDS if self.stop_by is None else 0.0
        self.stop_by = time.monotonic() + grace

    def launch(self) -> Postmaster:
        """Start a server on our data, which is made first if there is none."""
        identity = server_identity(self.data)
        programs = self.programs_for(identity)
        held = open_lock(self.lock)
        try:
            # Others look at this lock too, for a moment each. Where it stays held, a program that
            # the former server ran has outlived it; PostgreSQL's own check has the last word then.
            for _ in polls(within_seconds=1):
                if try_exclusive(held):
                    break
            if not self.data.exists():
                make_data(
                    self.home,
                    programs,
                    int(self.data.name),
                    identity,
                    settings=self.settings,
                    held=held,
                    log=OUTPUT,
                )
            self.began_at.append(time.monotonic())
            return launch(
                programs,
                self.data,
                make_folder(self.home, identity),
                identity,
                settings=self.settings,
                lock=self.lock,
                held=held,
                log=OUTPUT,
            )
        finally:
            os.close(held)

    def programs_for(self, identity: Identity | None) -> Path:
        """Return where *identity* can run PostgreSQL's programs, and reach our home from."""
        if identity is None:
            return self.programs
        if closed := first_closed_folder(self.home.path, identity):
            raise EmbeddedStartFailed(
                f"PostgreSQL refuses root, so it runs as {identity.name}, who cannot enter"
                f" {closed}: name a folder that {identity.name} can reach in"
                " embedded:/folder or WHERRY_HOME, such as one below /var/lib"
            )
        if can_run(self.programs / "postgres", identity):
            return self.programs
        return mirror(self.programs, self.home.mirrors)

    def launch_again(self, dead: Postmaster) -> Postmaster:
        """Replace a server that died while it is used; its users reconnect by themselves."""
        self.home.record.unlink(missing_ok=True)
        code = dead.child.returncode if dead.child is not None else "unknown"
        ended = f"PostgreSQL (process {dead.pid}) ended with code {code}"
        recent = time.monotonic() - RESTARTS_WITHIN_SECONDS
        self.began_at = [began for began in self.began_at if began > recent]
        given_up = self.answer >= 0 or len(self.began_at) > RESTARTS_LIMIT
        if given_up or self.stop_by is not None or dead.data != self.data:
            raise EmbeddedStartFailed(ended)
        note(f"{ended}; starting it again")
        self.ready = False
        again = find_orphan([self.data], self.lock)
        return again or self.launch()

    def announce(self, server: Postmaster) -> None:
        """Write down where the server is, and tell who started us."""
        self.ready = True
        sockets = self.home.sockets
        folder = sockets.readlink() if sockets.is_symlink() else sockets
        Record(
            dsn=dsn_for(folder),
            socket=str(socket_in(folder)),
            data=str(server.data),
            binaries=str(self.programs),
            version=self.version if server.data == self.data else server.data.name,
        ).write(self.home)
        self.say({"ready": True})

    def say(self, words: dict[str, object]) -> None:
        """Answer who started us, once; if it is gone, there is nobody to tell."""
        if self.answer >= 0:
            with contextlib.suppress(BrokenPipeError):
                os.write(self.answer, json.dumps(words).encode())
            os.close(self.answer)
            self.answer = -1

    def bound_log(self) -> None:
        """Begin the log anew when it is long, keeping one older part."""
        if time.monotonic() - self.log_looked_at < LOG_LOOK_SECONDS:
            return
        self.log_looked_at = time.monotonic()
        if os.fstat(OUTPUT).st_size > LOG_LIMIT_BYTES:
            # The server writes to the file itself, at its end: it can be emptied, not swapped.
            shutil.copyfile(self.home.log, self.home.log.with_suffix(".log.1"))
            os.ftruncate(OUTPUT, 0)


def note(text: str) -> None:
    """Write a line of our own into the server's log."""
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())
    os.write(OUTPUT, f"{at} UTC [{os.getpid()}] keeper: {text}\n".encode(errors="replace"))


def main(arguments: list[str]) -> int:
    """Keep the server of one home; returns when it has been stopped."""
    # Whoever started us waits for its child only until here; from now on we are nobody's.
    if os.fork() > 0:
        os._exit(0)
    answer = os.dup(1)
    os.dup2(OUTPUT, 1)
    where, programs, version, settings = arguments
    home = Home(Path(where))
    keeper = Keeper(home, Path(programs), version, json.loads(settings), answer)

    # Handlers, not SIG_IGN: that would be inherited by the server.
    signal.signal(signal.SIGTERM, keeper.ask_to_stop)
    for ignored in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(ignored, lambda _number, _frame: None)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])

    mine = open_lock(home.lock("keeper"))
    if not any(try_exclusive(mine) for _ in polls(within_seconds=10)):
        keeper.say({"failed": "another keeper holds this home"})
        return 1
    # What a former keeper wrote down says nothing about the server we are to keep.
    home.record.unlink(missing_ok=True)
    try:
        keeper.run()
    except (EmbeddedError, OSError) as failed:
        why = failed.reason if isinstance(failed, EmbeddedStartFailed) else str(failed)
        note(why)
        keeper.say({"failed": why})
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
