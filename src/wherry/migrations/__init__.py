"""The schema in the database: plain SQL files, and what applies and checks them.

`migrate`, `dry_run`, `status` and `check` block; async code runs them in a thread. `check` is what
workers call when they start; it needs no right but SELECT, and it never changes anything.
"""

from wherry.migrations.lacking import Lacking, lacking
from wherry.migrations.roles import grants
from wherry.migrations.run import Applied, MigrationState, check, dry_run, migrate, status
from wherry.migrations.script import sql

__all__ = [
    "Applied",
    "Lacking",
    "MigrationState",
    "check",
    "dry_run",
    "grants",
    "lacking",
    "migrate",
    "sql",
    "status",
]
