"""App: the public object. It knows its task types, its database, and every call.

`App()` does no I/O. The DSN is read at first use, pools are opened at the first call, and both
belong to the process (and loop) that made them.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NoReturn, ParamSpec, Protocol, Self, TypeVar, Unpack, overload

from wherry.app.calls import Calls
from wherry.app.calls_blocking import Calls as BlockingCalls
from wherry.app.ids import TaskIds
from wherry.app.imports import import_handlers, refuse_while_importing
from wherry.app.loop import run_in_own_loop
from wherry.config import (
    DEFAULT_CONCURRENCY,
    DEFAULT_LEASE_FOR,
    DEFAULT_POOL_SIZE,
    DEFAULT_POOL_TIMEOUT,
    DEFAULT_SCHEMA,
    DEFAULT_SHUTDOWN_TIMEOUT,
)
from wherry.doctor.examine import examine
from wherry.doctor.finding import Diagnosis
from wherry.domain.cron import Missed, Overlap
from wherry.domain.durations import Duration
from wherry.domain.options import DeclaredOptions, Options
from wherry.errors import HandlerError, InvalidOption
from wherry.migrations import Applied, migrate
from wherry.tasks.registry import Registry, default_name
from wherry.tasks.task import TaskType
from wherry.tasks.timetable import Timetable, scheduled
from wherry.worker.summary import Summary

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T", bound=TaskType[..., Any])


class TaskDecorator(Protocol):
    """What `@app.task(...)` is applied with."""

    def __call__(self, function: Callable[P, R], /) -> TaskType[P, R]:
        """Register the function."""
        ...


class App(Calls, BlockingCalls):
    """A task queue in one database.

    *dsn*: libpq conninfo or URI; without it $WHERRY_DSN is read at first use. `embedded:` (or
    `embedded:/folder`) is a PostgreSQL that Wherry starts itself and migrates; `grpc://host:port`
    (or `grpcs://`) is a server, which has the database.
    *imports*: modules with handlers, imported by workers only.
    *tx*: a function that returns the ambient connection, so that no enqueue forgets it.
    *pool_size*: the most connections that one process's calls hold at a time, per loop; 1 to 1,000.
    *pool_timeout*: how long a call waits for one, and for a database that went away.
    """

    def __init__(
        self,
        dsn: str | None = None,
        *,
        schema: str = DEFAULT_SCHEMA,
        imports: Sequence[str] = (),
        tx: Callable[[], Any] | None = None,
        pool_size: int = DEFAULT_POOL_SIZE,
        pool_timeout: Duration = DEFAULT_POOL_TIMEOUT,
    ) -> None:
        super().__init__(dsn, schema=schema, tx=tx, pool_size=pool_size, pool_timeout=pool_timeout)
        self.imports = tuple(imports)
        self.registry = Registry()
        self.timetable = Timetable()
        self._ids = TaskIds()

    def __repr__(self) -> str:
        return f"<App schema={self.schema!r} types={len(self.registry)}>"

    @overload
    def task(self, function: Callable[P, R], /) -> TaskType[P, R]: ...

    @overload
    def task(
        self,
        function: None = None,
        /,
        *,
        name: str | None = None,
        isolation: Literal["loop", "thread"] | None = None,
        store_result: bool = False,
        **options: Unpack[DeclaredOptions],
    ) -> TaskDecorator: ...

    def task(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        name: str | None = None,
        isolation: Literal["loop", "thread"] | None = None,
        store_result: bool = False,
        **options: Unpack[DeclaredOptions],
    ) -> TaskType[..., Any] | TaskDecorator:
        """Make a function the handler of a task type; usable bare or with options.

        *isolation* is `loop` for async functions and `thread` for plain ones. *store_result* keeps
        what the handler returns. *options*: queue, priority, max_attempts, retry, timeout (of one
        attempt), ttl, key_ttl, tags, headers; durations are timedeltas or seconds. Raises
        HandlerError for a function no worker could find or call by name, DuplicateType, or
        InvalidOption.
        """
        declared = Options.declared(options)

        def register(function: Callable[P, R], /) -> TaskType[P, R]:
            task_type: TaskType[P, R] = TaskType(
                function,
                name=name if name is not None else default_name(function),
                app=self,
                options=declared,
                isolation=_isolation(function, isolation),
                store_result=store_result,
            )
            # Refused where it is written, not at the first enqueue.
            declared.spec(task_type.name, "{}")
            self.registry.add(task_type)
            return task_type

        return register if function is None else register(function)

    def schedule(
        self,
        cron: str,
        *,
        tz: str = "UTC",
        name: str | None = None,
        payload: Mapping[str, Any] | None = None,
        missed: Missed | Literal["last", "all", "skip"] = "last",
        overlap: Overlap | Literal["allow", "skip"] = "allow",
        **options: Unpack[DeclaredOptions],
    ) -> Callable[[T], T]:
        """Declare a schedule of the task type below: a task at each time of a cron expression.

        *cron*: five fields, or six with seconds in front, read in the time zone *tz* (an IANA
        name). *name*: what the schedule is known by, the type's name if none is given; of two
        schedules of one type one needs another. *payload*: the handler's arguments by name.
        *missed*: what becomes of times at which no worker was there (the last one is made up for;
        all are, up to 100; none later than a minute). *overlap*: `skip` brings no task while the
        schedule's last one has not ended. *options* are those of `@app.task`, for these tasks.

        Workers write it to the database when they start. Raises InvalidTask or HandlerError at
        once for what cannot be: a day that never comes, or a name that is taken.
        """

        def declare(task_type: T, /) -> T:
            declared = scheduled(
                task_type,
                cron,
                tz=tz,
                name=name,
                payload=payload,
                missed=missed,
                overlap=overlap,
                options=options,
            )
            self.timetable.add(declared, task_type)
            return task_type

        return declare

    def load(self) -> None:
        """Import the modules of `imports`; the current folder counts. Raises UnknownImport."""
        for module in self.imports:
            import_handlers(module)

    def migrate(self) -> list[Applied]:
        """Bring the database's schema up to date; returns what was applied now."""
        return migrate(self.dsn, schema=self.schema)

    async def amigrate(self) -> list[Applied]:
        """Bring the database's schema up to date; returns what was applied now."""
        return await asyncio.to_thread(self.migrate)

    def doctor(self) -> Diagnosis:
        """Look at the database and say what is wrong, and what to do; it changes nothing.

        Takes a second, on a sick database up to a minute. Raises ConfigError through a server:
        the database is looked at where the server runs.
        """
        return examine(self.dsn, schema=self.schema)

    async def adoctor(self) -> Diagnosis:
        """Look at the database, in a thread; see `doctor`."""
        return await asyncio.to_thread(self.doctor)

    def work(
        self,
        queues: Sequence[str] | None = None,
        *,
        concurrency: int = DEFAULT_CONCURRENCY,
        name: str | None = None,
        lease_for: Duration = DEFAULT_LEASE_FOR,
        shutdown_timeout: Duration = DEFAULT_SHUTDOWN_TIMEOUT,
        until_empty: bool = False,
        listen: bool = True,
        allow_unsafe_database: bool = False,
    ) -> Summary:
        """Run a worker here until SIGTERM or SIGINT (handled only on the main thread).

        *queues*: by default those of the registered types; `["*"]` for every queue there is.
        *until_empty*: end once nothing is due and nothing runs; a retry that is due later does not
        count. *listen*: False polls once a second and needs no LISTEN. Durations are timedeltas or
        seconds. Raises ReadOnly or UnfitDatabase for a database that would lose tasks; with
        *allow_unsafe_database* that is only a warning.
        """
        refuse_while_importing()

        async def work() -> Summary:
            try:
                return await self._work(
                    queues,
                    concurrency=concurrency,
                    name=name,
                    lease_for=lease_for,
                    shutdown_timeout=shutdown_timeout,
                    until_empty=until_empty,
                    listen=listen,
                    allow_unsafe_database=allow_unsafe_database,
                    signals=True,
                )
            finally:
                await self.aclose_loop()

        return run_in_own_loop(work, call="work")

    async def awork(
        self,
        queues: Sequence[str] | None = None,
        *,
        concurrency: int = DEFAULT_CONCURRENCY,
        name: str | None = None,
        lease_for: Duration = DEFAULT_LEASE_FOR,
        shutdown_timeout: Duration = DEFAULT_SHUTDOWN_TIMEOUT,
        until_empty: bool = False,
        listen: bool = True,
        allow_unsafe_database: bool = False,
    ) -> Summary:
        """Run a worker in this loop; see `work`. Canceling it drains it first.

        Signals are the loop's owner's: this handles none.
        """
        refuse_while_importing()
        return await self._work(
            queues,
            concurrency=concurrency,
            name=name,
            lease_for=lease_for,
            shutdown_timeout=shutdown_timeout,
            until_empty=until_empty,
            listen=listen,
            allow_unsafe_database=allow_unsafe_database,
            signals=False,
        )

    async def _work(
        self,
        queues: Sequence[str] | None,
        *,
        concurrency: int,
        name: str | None,
        lease_for: Duration,
        shutdown_timeout: Duration,
        until_empty: bool,
        listen: bool,
        allow_unsafe_database: bool,
        signals: bool,
    ) -> Summary:
        # Imported here: what composes a worker is built on App.
        from wherry.app.work import run_worker, worker_settings

        settings = worker_settings(
            concurrency=concurrency,
            lease_for=lease_for,
            shutdown_timeout=shutdown_timeout,
            listen=listen,
            allow_unsafe_database=allow_unsafe_database,
        )
        return await run_worker(
            self,
            queues=queues,
            settings=settings,
            name=name,
            until_empty=until_empty,
            signals=signals,
        )

    def __copy__(self) -> NoReturn:
        """Refuse to be copied: two Apps cannot have the same connections and types."""
        raise TypeError(
            "an App cannot be copied: share this one, which any thread and any event loop may use,"
            " or make another with App(...)"
        )

    def __deepcopy__(self, _: object) -> NoReturn:
        """Refuse to be copied, also as a part of something."""
        self.__copy__()

    def __reduce_ex__(self, protocol: object, /) -> NoReturn:
        """Refuse to be sent to another process: nothing that an App holds can go with it."""
        raise TypeError(
            "an App cannot be copied into another process: one that is spawned makes its own, by"
            " importing the module that makes this one; or let it run `wherry worker`"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def _isolation(
    function: Callable[..., Any], asked: Literal["loop", "thread"] | None
) -> Literal["loop", "thread"]:
    awaited = inspect.iscoroutinefunction(inspect.unwrap(function))
    natural: Literal["loop", "thread"] = "loop" if awaited else "thread"
    if asked not in (None, "loop", "thread"):
        raise InvalidOption(
            "isolation", asked, "choose loop (async functions) or thread (plain ones)"
        )
    if asked is not None and asked != natural:
        raise HandlerError(
            f"{function.__qualname__} is {'an async' if awaited else 'a plain'} function:"
            f" it runs with isolation={natural!r}"
        )
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        raise HandlerError(f"{function.__qualname__} is a generator: a handler returns once")
    return natural
