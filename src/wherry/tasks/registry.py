"""The task types that one App knows, by name."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from wherry.errors import DuplicateType, HandlerError, UnknownType

if TYPE_CHECKING:
    from wherry.tasks.task import TaskType


class Registry:
    """Task types by name. Filled while modules are imported, read while workers run."""

    def __init__(self) -> None:
        self._types: dict[str, TaskType[Any, Any]] = {}

    def add(self, task_type: TaskType[Any, Any]) -> None:
        """Add a type. Raises DuplicateType for a second function under the same name.

        The same function again is no duplicate: that is a module that was imported twice, as
        `__main__` and by its own name.
        """
        known = self._types.get(task_type.name)
        if known is not None and place(known.function) != place(task_type.function):
            raise DuplicateType(
                task_type.name,
                first=described(known.function),
                second=described(task_type.function),
            )
        self._types[task_type.name] = task_type

    def get(self, name: str) -> TaskType[Any, Any]:
        """Return the type of that name. Raises UnknownType."""
        try:
            return self._types[name]
        except KeyError:
            raise UnknownType(name, known=sorted(self._types)) from None

    def find(self, name: str) -> TaskType[Any, Any] | None:
        """Return the type of that name, or None."""
        return self._types.get(name)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all types."""
        return tuple(self._types)

    @property
    def queues(self) -> tuple[str, ...]:
        """The queues that the types are enqueued to by default."""
        return tuple(sorted({task_type.options.queue for task_type in self}))

    def __iter__(self) -> Iterator[TaskType[Any, Any]]:
        return iter(self._types.values())

    def __len__(self) -> int:
        return len(self._types)


def default_name(function: Callable[..., Any]) -> str:
    """Return the name a function has as a task type: its module, a dot, its own name.

    Lambdas and nested functions are refused, since no other process could find them by name. In
    `__main__` it is the name by which another process would import that module.
    """
    name = function.__qualname__
    if "<" in name:
        kind = "a lambda" if "<lambda>" in name else "a nested function"
        raise HandlerError(
            f"{name} is {kind}: a handler must be a function at the top of its module,"
            " so that workers can find it; or give it a name with @app.task(name=...)"
        )
    return f"{_module_name(function.__module__)}.{name}"


def _module_name(module: str) -> str:
    if module != "__main__":
        return module
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        # Started with `python -m package.module` (or a package's __main__).
        return str(spec.name).removesuffix(".__main__")
    path = getattr(main, "__file__", None)
    return inspect.getmodulename(path) or "__main__" if path else "__main__"


def place(function: Callable[..., Any]) -> tuple[str, str]:
    """Return where a function is written: two of one place are one, imported twice."""
    code = inspect.unwrap(function).__code__
    return code.co_filename, function.__qualname__


def described(function: Callable[..., Any]) -> str:
    """Return a function's name and place, for people."""
    code = inspect.unwrap(function).__code__
    return f"{function.__qualname__} ({code.co_filename}:{code.co_firstlineno})"
