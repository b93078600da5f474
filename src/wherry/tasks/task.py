"""A task type: the function that handles it, its options, and the calls that enqueue it.

Calling a TaskType runs the function here and now; `enqueue` and `aenqueue` store a task instead.
The payload is the call's arguments by name, so that a worker can be newer or older than its
enqueuers.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Generic, Literal, ParamSpec, Protocol, TypeVar, Unpack, cast

from wherry.domain.options import (
    EnqueueOptions,
    Options,
    SpecMaker,
    TaskSpec,
    check_flag,
    check_list,
)
from wherry.domain.specs import Alike, Specs
from wherry.domain.task import Enqueued
from wherry.errors import HandlerError, InvalidTask
from wherry.tasks.payload import encode

if sys.version_info >= (3, 14):
    import annotationlib

P = ParamSpec("P")
R = TypeVar("R")


class _Ambient:
    """The default of tx: whatever App(tx=...) names, if anything. None opts out."""

    def __repr__(self) -> str:
        return "<the App's ambient tx>"


AMBIENT: Final = _Ambient()


class Enqueuer(Protocol):
    """What a task type needs of its App."""

    def enqueue_specs(self, specs: Sequence[TaskSpec], *, tx: Any, notify: bool) -> list[Enqueued]:
        """Store, blocking."""
        ...

    async def aenqueue_specs(
        self, specs: Sequence[TaskSpec], *, tx: Any, notify: bool
    ) -> list[Enqueued]:
        """Store, awaited."""
        ...


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
        self._made_spec: SpecMaker | None = None
        self.tx: Any = AMBIENT
        self.notify = True
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
        self, *, tx: Any = AMBIENT, notify: bool | None = None, **options: Unpack[EnqueueOptions]
    ) -> TaskType[P, R]:
        """Return a copy of this type whose calls are enqueued with these options.

        *tx* is the connection whose transaction the task belongs to; None means a transaction of
        our own even where the App has an ambient one. *options*: queue, key, key_ttl, delay,
        run_after, priority, max_attempts, retry, timeout, ttl, tags, headers; durations are
        timedeltas or seconds. Raises InvalidOption for a name that is none of them.
        """
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        if options:
            copy.options = self.options.changed(options)
            copy._made_spec = None
        if tx is not AMBIENT:
            copy.tx = tx
        if notify is not None:
            copy.notify = check_flag(notify, option="notify")
        return copy

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Enqueued:
        """Store a task for this call, blocking."""
        spec = self._spec(args, kwargs)
        return self._app.enqueue_specs([spec], tx=self.tx, notify=self.notify)[0]

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> Enqueued:
        """Store a task for this call."""
        spec = self._spec(args, kwargs)
        return (await self._app.aenqueue_specs([spec], tx=self.tx, notify=self.notify))[0]

    def enqueue_many(self, calls: Iterable[Mapping[str, Any]]) -> list[Enqueued]:
        """Store a task for each element (a call's arguments by name), all or none."""
        specs = self._specs(calls)
        return self._app.enqueue_specs(specs, tx=self.tx, notify=self.notify)

    async def aenqueue_many(self, calls: Iterable[Mapping[str, Any]]) -> list[Enqueued]:
        """Store a task for each element (a call's arguments by name), all or none."""
        # Meanwhile others may change what was passed.
        specs = self._specs(calls).made()
        return await self._app.aenqueue_specs(specs, tx=self.tx, notify=self.notify)

    def spec(self, payload: Mapping[str, Any], options: Mapping[str, Any]) -> TaskSpec:
        """Return the checked task of a payload; *options* are those that a type may declare.

        Raises HandlerError if the payload does not fit, or InvalidTask.
        """
        Options.declared(options)
        text = encode(payload)
        self.bind({**payload})
        return self.options.changed(options).spec(self.name, text)

    def bind(self, payload: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments for a stored payload. Raises HandlerError if they do not fit."""
        known, required, takes_more = self.signature
        if payload.keys() == known:
            return payload
        if required <= payload.keys() and (takes_more or payload.keys() <= known):
            return payload
        missing = sorted(required - payload.keys())
        unknown = [] if takes_more else sorted(payload.keys() - known)
        trouble: list[str] = []
        if missing:
            trouble.append(f"it lacks {', '.join(missing)}")
        if unknown:
            trouble.append(f"{self.__name__} does not take {', '.join(unknown)}")
        raise HandlerError(f"the payload does not fit {self.name}: {'; '.join(trouble)}")

    def _spec(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> TaskSpec:
        if args:
            # Only positional arguments need the names that a full binding gives them.
            bound = _as_written(self.function).bind(*args, **kwargs)
            payload = dict(bound.arguments)
            for parameter in bound.signature.parameters.values():
                if parameter.kind is parameter.VAR_KEYWORD:
                    payload |= payload.pop(parameter.name, {})
        else:
            payload = dict(kwargs)
            self.bind(payload)
        text = encode(payload)
        return self._spec_maker(index=None)(text)

    def _specs(self, calls: Iterable[Mapping[str, Any]]) -> Specs:
        given = check_list(calls, option="calls", of="dicts")

        def making(start: int, stop: int) -> list[Alike]:
            texts = [self._text(given[index], index) for index in range(start, stop)]
            return [Alike(self._spec_maker(index=start)(""), texts)]

        return Specs(len(given), making)

    def _text(self, call: Mapping[str, Any], index: int) -> str:
        if type(call) is dict:
            payload = cast("dict[str, Any]", call)
        elif hasattr(call, "keys"):
            # Rows of some drivers are read like a mapping, and are none for Python.
            payload = dict(call)
        else:
            kind = type(call).__name__
            raise InvalidTask(f"must be a dict of the arguments by name, not {kind}", index=index)
        text = encode(payload, index=index)
        if payload.keys() != self.signature[0]:
            try:
                self.bind(payload)
            except HandlerError as error:
                raise HandlerError(f"task {index} of the batch: {error}") from None
        return text

    def _spec_maker(self, *, index: int | None) -> SpecMaker:
        """The options are those of the type, so they are checked once."""
        if self._made_spec is None:
            self._made_spec = self.options.checked(self.name, index=index)
        return self._made_spec


def _signature(
    function: Callable[..., Any], name: str
) -> tuple[frozenset[str], frozenset[str], bool]:
    """Return the names a handler takes, those it needs, and whether it takes any other."""
    known: set[str] = set()
    required: set[str] = set()
    takes_more = False
    for parameter in _as_written(function).parameters.values():
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


def _as_written(function: Callable[..., Any]) -> inspect.Signature:
    """Return the signature without a value for its annotations.

    From CPython 3.14 on they are evaluated when they are asked for, and what is imported for type
    checkers only has no value.
    """
    if sys.version_info >= (3, 14):
        return inspect.signature(function, annotation_format=annotationlib.Format.STRING)
    return inspect.signature(function)
