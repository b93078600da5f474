"""Imports the modules that hold handlers, the current folder included.

A module that starts a worker when it is imported would hang whoever imports it, the command line
included: while an import is going on here, `App.work` refuses.
"""

from __future__ import annotations

import importlib
import sys
import traceback
from contextvars import ContextVar
from pathlib import Path
from types import ModuleType

from wherry.errors import ConfigError, UnknownImport

# What is not the application's in a traceback: importing itself, the standard library, and us.
_PACKAGE = f"{Path(__file__).resolve().parent.parent}/"
_STDLIB = f"{Path(importlib.__file__).parent.parent}/"
_NOT_THEIRS = ("<frozen ", _STDLIB, _PACKAGE)

_importing: ContextVar[str | None] = ContextVar("wherry_importing", default=None)


def import_handlers(module: str) -> ModuleType:
    """Return the imported module. Raises UnknownImport, also if it exits while it is imported."""
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    mark = _importing.set(module)
    try:
        return importlib.import_module(module)
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        raise UnknownImport(module, _reason(error, module, folder)) from error
    finally:
        _importing.reset(mark)


def refuse_while_importing() -> None:
    """Raise ConfigError inside `import_handlers`."""
    module = _importing.get()
    if module is not None:
        raise ConfigError(
            f"module {module!r} starts a worker while it is imported: move that call below"
            ' `if __name__ == "__main__":`'
        )


def _reason(error: BaseException, module: str, folder: str) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name is not None:
        missing = error.name
        if module == missing or module.startswith(f"{missing}."):
            return f"there is no module {missing!r} in {folder} or on sys.path"
    text = f"{type(error).__name__}: {error}".removesuffix(": ")
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if not frame.filename.startswith(_NOT_THEIRS)]
    if not theirs or isinstance(error, SyntaxError):
        return text
    return f"{text} ({theirs[-1].filename}, line {theirs[-1].lineno})"
