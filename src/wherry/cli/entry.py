"""`wherry`: the command, and what its exit code says.

    0     done; of a worker: everything that it leased was settled
    1     not all of it was done, was refused, or could not be told; the error says which
    2     the command line or the set-up is wrong
    3     the database is out of reach
    130   interrupted by Ctrl-C
    141   nobody reads stdout any more, or it is closed

Errors that Wherry knows are one sentence on stderr; only -v shows where one came from.
"""

from __future__ import annotations

import errno
import os
import sys
import traceback
from typing import Any

import click

from wherry import errors
from wherry.cli.asked import Asked
from wherry.cli.output import print_error
from wherry.cli.text import plain
from wherry.domain.lines import on_one_line

DONE, NOT_DONE, WRONG, OUT_OF_REACH, INTERRUPTED, NOT_READ = 0, 1, 2, 3, 130, 141

# The first that fits counts.
_CODES: tuple[tuple[type[Exception], int], ...] = (
    (errors.Unavailable, OUT_OF_REACH),
    (errors.EmbeddedStartFailed, OUT_OF_REACH),
    (errors.MigrationFailed, NOT_DONE),
    (errors.MigrationLocked, NOT_DONE),
    (errors.ConfigError, WRONG),
    (errors.SchemaError, WRONG),
    (errors.MigrationError, WRONG),
    (errors.InvalidTask, WRONG),
    (errors.HandlerError, WRONG),
    (errors.Unauthenticated, WRONG),
    (errors.PermissionDenied, WRONG),
)
# What a stream says that was opened by somebody else and takes no more. A file of ours that cannot
# be opened has a name.
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF})
_AFTER_THE_VERB = ("--dsn", "--json", "--quiet", "--schema", "--verbose", "-q", "-v")


def exit_code(error: Exception) -> int:
    """Return the exit code that an error means."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), NOT_DONE)


class Door(click.Group):
    """All verbs; what they raise becomes a sentence and an exit code."""

    def main(self, args: Any = None, *positional: Any, **extra: Any) -> Any:
        """Run the command line; without *args* that of this process."""
        extra.setdefault("obj", Asked(owns_process=args is None))
        for stream in (sys.stdout, sys.stderr):
            # A terminal that cannot show a character must not make an answer fail.
            reconfigure = getattr(stream, "reconfigure", None)
            if reconfigure is not None:
                reconfigure(errors="backslashreplace")
        try:
            return super().main(args, *positional, **extra)
        except OSError as error:
            if error.filename is not None or error.errno not in _NO_ROOM:
                raise
            _stop_writing()
            print_error(f"Error: what there is to tell could not be written: {error.strerror}")
            sys.exit(NOT_DONE)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse; an option that belongs behind the verb is told its place."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            name = error.option_name
            if name not in _AFTER_THE_VERB:
                raise
            text = f"{name} goes behind the verb, as in: wherry dead list {name} …"
            raise click.UsageError(text, ctx) from None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the verb; one that stands in a group is told its place."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            meant = [
                f"`wherry {name} {args[0]}`"
                for name, group in sorted(self.commands.items())
                if isinstance(group, click.Group) and args[0] in group.commands
            ]
            if not meant:
                raise
            text = f"No such command {args[0]!r}: did you mean {' or '.join(meant)}?"
            raise click.UsageError(text, ctx) from None

    def invoke(self, ctx: click.Context) -> Any:
        """Run the verb."""
        try:
            answer = super().invoke(ctx)
            if sys.stdout is not None:  # pyright: ignore[reportUnnecessaryComparison]
                sys.stdout.flush()
        except BrokenPipeError:
            _stop_writing()
            ctx.exit(NOT_READ)
        except (KeyboardInterrupt, click.Abort):
            print_error("interrupted")
            ctx.exit(INTERRUPTED)
        except errors.WherryError as error:
            _tell(ctx, error, str(error))
            ctx.exit(exit_code(error))
        except Exception as error:
            if not _is_of_the_driver(error):
                raise
            _tell(ctx, error, f"PostgreSQL refused: {on_one_line(str(error))}")
            ctx.exit(_code_of_refusal(error))
        return answer


def _tell(ctx: click.Context, error: Exception, text: str) -> None:
    if ctx.ensure_object(Asked).verbosity > 0:
        print_error("".join(traceback.format_exception(error)).rstrip())
    if isinstance(error, errors.DSNMissing):
        text += "; or name one with --dsn"
    for note in getattr(error, "__notes__", ()):
        text += f"\n{note}"
    print_error(f"Error: {plain(text, lines=True)}")


def _is_of_the_driver(error: Exception) -> bool:
    # Not imported for this: where it was not, none of its errors can have been raised.
    psycopg = sys.modules.get("psycopg")
    return psycopg is not None and isinstance(error, psycopg.Error)


def _code_of_refusal(error: Exception) -> int:
    """Rights that are missing and DSNs that cannot be read are matters of the set-up."""
    import psycopg

    wrong = (psycopg.errors.InsufficientPrivilege, psycopg.ProgrammingError)
    return WRONG if isinstance(error, wrong) else NOT_DONE


def _stop_writing() -> None:
    """Give stdout to nobody, so that the interpreter does not fail at writing its last buffer."""
    if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison]
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
