"""Finds the App that `module:attribute` names.

Importing somebody's module runs their code: it may fail, exit, or start a worker. Each of that is
an error that names the module, before anything is leased.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wherry.errors import ConfigError, DSNMissing

if TYPE_CHECKING:
    from wherry.app.app import App


def load_app(name: str) -> App:
    """Return the App with the modules it imports. Raises ConfigError or UnknownImport."""
    from wherry.app.app import App
    from wherry.app.imports import import_handlers

    module, parted, attribute = name.partition(":")
    if not module or not attribute or "/" in module or module.endswith(".py"):
        raise ConfigError(
            f"{name!r} names no App: write module:attribute, such as shop.tasks:app for the `app`"
            " in shop/tasks.py"
            + ("" if parted else "; what is missing is the colon and the attribute")
        )
    found: Any = import_handlers(module)
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise ConfigError(f"module {module!r} has no {attribute!r}{_apps_in(found)}")
        found = getattr(found, part)
    if not isinstance(found, App):
        raise ConfigError(_no_app(name, found))
    found.load()
    if not len(found.registry):
        raise ConfigError(
            f"{name} knows no task type, so there is nothing to work on: decorate a function with"
            " @app.task in that module, or name the modules that do in App(imports=[...])"
        )
    return found


def has_dsn(app: App) -> bool:
    """Whether the App's argument or the environment names a database; `embedded:` is started.

    Raises ConfigError for a DSN that cannot be read.
    """
    try:
        return bool(app.dsn)
    except DSNMissing:
        return False


def _apps_in(module: Any) -> str:
    from wherry.app.app import App

    apps = [name for name in dir(module) if isinstance(getattr(module, name, None), App)]
    return f"; the Apps in it: {', '.join(apps)}" if apps else "; there is no App in it"


def _no_app(name: str, found: Any) -> str:
    text = f"{name} is no wherry.App but a {type(found).__name__}"
    if callable(found):
        text += ": a worker cannot call it, make the App at the top of its module"
    return text
