"""A task type: the function that handles it, its options, and the calls that enqueue it.

Calling a TaskType runs the function here and now; `enqueue` and `aenqueue` store a task instead.
The payload is the call's arguments by name, so that a worker can be newer or older than its
enqueuers.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from typing import Any, Final, Generic, Literal, ParamSpec, Protocol, TypeAlias, TypedDict, TypeVar

from wherry.config import DEFAULT_MAX_ATTEMPTS, DEFAULT_QUEUE
from wherry.domain.options import TaskSpec, make_spec
from wherry.domain.retry import RetryPolicy, check_own_policy
from wherry.domain.task import Enqueued
from wherry.errors import HandlerError
from wherry.tasks.payload import encode

P = ParamSpec("P")
R = TypeVar("R")
Duration: TypeAlias = timedelta | float


class _Ambient:
    """The default of tx: whatever App(tx=...) names, if anything. None opts out."""

    def __repr__(self) -> str:
        return "<the App's ambient tx>"


AMBIENT: Final = _Ambient()


class Call(TypedDict):
    """One element of `enqueue_many`: the arguments of one call."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of one enqueue; what a type declares is where its calls start from."""

    queue: str = DEFAULT_QUEUE
    priority: int = 0
    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    retry: RetryPolicy | None = None
    timeout: Duration | None = None
    ttl: Duration | None = None
    delay: Duration | None = None
    run_after: datetime | None = None
    key: str | None = None
    key_ttl: Duration | None = None
    tags: Sequence[str] = ()
    headers: Mapping[str, str] | None = None
    notify: bool = True
    tx: Any = field(default=AMBIENT, repr=False)

    def spec(self, type: str, payload: str, *, index: int | None = None) -> TaskSpec:
        """Return the checked task. Raises InvalidOption."""
        return make_spec(
            type=type,
            payload=payload,
            queue=self.queue,
            priority=self.priority,
            delay=self.delay,
            run_after=self.run_after,
            max_attempts=self.max_attempts,
            key=self.key,
            key_ttl=self.key_ttl,
            retry=self.retry,
            timeout=self.timeout,
            ttl=self.ttl,
            tags=self.tags,
            headers=self.headers,
            index=index,
        )


OPTION_NAMES: Final = frozenset(each.name for each in fields(Options))


class Enqueuer(Protocol):
    """What a task type needs of its App."""

    def enqueue_specs(self, specs: Sequence[TaskSpec], *, tx: Any, notify: bool) -> list[Enqueued]:
        """Store, blocking."""

    async def aenqueue_specs(
        self, specs: Sequence[TaskSpec], *, tx: Any, notify: bool
    ) -> list[Enqueued]:
        """Store, awaited."""


class TaskType(Generic[P, R]):
    """A named kind of task and the function that handles it."""

    def __init__(
        self,
        function: Callable[P, R],
        *,
        name: str,
        app: Enqueuer,
        options: Options,
        isolation: Literal["loop", "thread"],
        store_result: bool,
    ) -> None:
        self.function = function
        self.name = name
        self.options = options
        self.isolation = isolation
        self.store_result = store_result
        self.signature = _signature(function, name)
        self._app = app
        self.__doc__ = function.__doc__
        self.__name__ = getattr(function, "__name__", name)
        self.__wrapped__ = function

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the function here and now; nothing is stored."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<TaskType {self.name!r} queue={self.options.queue!r}>"

    def using(
        self,
        *,
        tx: Any = AMBIENT,
        queue: str | None = None,
        key: str | None = None,
        key_ttl: Duration | None = None,
        delay: Duration | None = None,
        run_after: datetime | None = None,
        priority: int | None = None,
        max_attempts: int | None = None,
        retry: RetryPolicy | None = None,
        timeout: Duration | None = None,
        ttl: Duration | None = None,
        tags: Sequence[str] | None = None,
        headers: Mapping[str, str] | None = None,
        notify: bool | None = None,
    ) -> TaskType[P, R]:
        """Return a copy of this type whose calls are enqueued with these options.

        *tx* is the connection whose transaction the task belongs to; None means a transaction of
        our own even where the App has an ambient one. Durations are timedeltas or seconds.
        """
        given: dict[str, Any] = {
            "queue": queue,
            "key": key,
            "key_ttl": key_ttl,
            "delay": delay,
            "run_after": run_after,
            "priority": priority,
            "max_attempts": max_attempts,
            "retry": None if retry is None else check_own_policy(retry),
            "timeout": timeout,
            "ttl": ttl,
            "tags": tags,
            "headers": headers,
            "notify": notify,
        }
        options = {name: value for name, value in given.items() if value is not None}
        if tx is not AMBIENT:
            options["tx"] = tx
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        copy.options = replace(self.options, **options)
        return copy

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Enqueued:
        """Store a task for this call, blocking."""
        spec = self._spec(args, kwargs)
        return self._app.enqueue_specs([spec], tx=self.options.tx, notify=self.options.notify)[0]

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> Enqueued:
        """Store a task for this call."""
        spec = self._spec(args, kwargs)
        answers = await self._app.aenqueue_specs(
            [spec], tx=self.options.tx, notify=self.options.notify
        )
        return answers[0]

    def enqueue_many(self, calls: Iterable[Mapping[str, Any]]) -> list[Enqueued]:
        """Store a task for each element (a call's arguments by name), all or none."""
        specs = self._specs(calls)
        return self._app.enqueue_specs(specs, tx=self.options.tx, notify=self.options.notify)

    async def aenqueue_many(self, calls: Iterable[Mapping[str, Any]]) -> list[Enqueued]:
        """Store a task for each element (a call's arguments by name), all or none."""
        specs = self._specs(calls)
        return await self._app.aenqueue_specs(specs, tx=self.options.tx, notify=self.options.notify)

    def bind(self, payload: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments for a stored payload. Raises HandlerError if they do not fit."""
        known, required, takes_more = self.signature
        if required <= payload.keys() and (takes_more or payload.keys() <= known):
            return payload
        missing = sorted(required - payload.keys())
        unknown = [] if takes_more else sorted(payload.keys() - known)
        trouble = []
        if missing:
            trouble.append(f"it lacks {', '.join(missing)}")
        if unknown:
            trouble.append(f"{self.__name__} does not take {', '.join(unknown)}")
        raise HandlerError(f"the payload does not fit {self.name}: {'; '.join(trouble)}")

    def _spec(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> TaskSpec:
        if args:
            # Only positional arguments need the names that a full binding gives them.
            bound = inspect.signature(self.function).bind(*args, **kwargs)
            payload = dict(bound.arguments)
            for parameter in bound.signature.parameters.values():
                if parameter.kind is parameter.VAR_KEYWORD:
                    payload |= payload.pop(parameter.name, {})
        else:
            payload = dict(kwargs)
            self.bind(payload)
        return self.options.spec(self.name, encode(payload))

    def _specs(self, calls: Iterable[Mapping[str, Any]]) -> list[TaskSpec]:
        specs = []
        for index, call in enumerate(calls):
            payload = dict(call)
            try:
                self.bind(payload)
            except HandlerError as error:
                raise HandlerError(f"task {index} of the batch: {error}") from None
            specs.append(self.options.spec(self.name, encode(payload, index=index), index=index))
        return specs


def _signature(
    function: Callable[..., Any], name: str
) -> tuple[frozenset[str], frozenset[str], bool]:
    """Return the names a handler takes, those it needs, and whether it takes any other."""
    known: set[str] = set()
    required: set[str] = set()
    takes_more = False
    for parameter in inspect.signature(function).parameters.values():
        match parameter.kind:
            case parameter.VAR_KEYWORD:
                takes_more = True
            case parameter.VAR_POSITIONAL | parameter.POSITIONAL_ONLY:
                raise HandlerError(
                    f"{name} takes {parameter} without a name: the payload is a JSON object of"
                    " the arguments by name, so each parameter needs one"
                )
            case _:
                known.add(parameter.name)
                if parameter.default is parameter.empty:
                    required.add(parameter.name)
    return frozenset(known), frozenset(required), takes_more
