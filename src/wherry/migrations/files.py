"""Reads a folder of migrations: `0001_core.sql`, `0002_….sql`, each a step that is never undone.

The numbers start at 1 and have no gaps, so that what a database has is said by one number. A file
is plain SQL written for the schema `wherry`. Leading comment lines may hold directives:

    -- wherry: works from 3      code that knows 3 files or more can run on this schema, as far as
                                 the other files it does not know say the same, and none that knows
                                 fewer; without it the code of one file earlier still can (expand,
                                 then contract)
    -- wherry: no transaction    each statement runs by itself, as CREATE INDEX CONCURRENTLY must;
                                 statements are parted by lines `-- wherry: next`, and running the
                                 file again after a failure half-way must be right

The checksum is of the text as written, whatever the line endings and byte order mark: a checkout
on Windows is the same migration.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files as resources
from importlib.resources.abc import Traversable
from itertools import pairwise

from wherry.errors import MigrationError, MigrationMissing

_FILE_NAME = re.compile(r"(\d{4})_[a-z0-9_]+\.sql")
_DIRECTIVE = re.compile(r"--\s*wherry:\s*(.*?)\s*")
_NEXT = re.compile(r"^--\s*wherry:\s*next[^\S\n]*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class MigrationFile:
    """One migration as its file states it; `name` is the file's, without the ending."""

    version: int
    name: str
    sql: str
    checksum: str
    works_from: int
    in_transaction: bool

    @property
    def statements(self) -> Sequence[str]:
        """What is sent to PostgreSQL at once: the whole file, unless it runs in no transaction."""
        return (self.sql,) if self.in_transaction else tuple(_NEXT.split(self.sql))


def packaged() -> Traversable:
    """Return the folder of the migrations that came with this version of Wherry."""
    return resources("wherry.migrations")


def read_folder(folder: Traversable | None = None) -> list[MigrationFile]:
    """Return the folder's migrations in order; without a folder, those of this version of Wherry.

    Raises MigrationError for a name that is none or a number that is taken, and MigrationMissing
    for a gap: both mean a broken package, or a branch that was merged without renumbering.
    """
    entries = (packaged() if folder is None else folder).iterdir()
    found = sorted(
        (_read(entry) for entry in entries if entry.name.endswith(".sql")),
        key=lambda file: (file.version, file.name),
    )
    for earlier, file in pairwise(found):
        if earlier.version == file.version:
            raise MigrationError(
                f"migrations {earlier.name} and {file.name} have the same number:"
                " give the one that no database has yet the next free number",
                name=file.name,
            )
    for expected, file in enumerate(found, start=1):
        if file.version != expected:
            raise MigrationMissing(
                f"migration {expected:04} has no file, though {file.name} has: reinstall the"
                " wherry package, or put the file back; numbers have no gaps",
                name=f"{expected:04}",
            )
    return found


def parse_file(file_name: str, content: bytes) -> MigrationFile:
    """Return the migration that a file of this name and content is."""
    named = _FILE_NAME.fullmatch(file_name)
    if named is None or named[1] == "0000":
        raise MigrationError(
            f"{file_name} is not a migration's name: call it NNNN_in_a_few_words.sql,"
            " with a number from 0001 on and lower-case words",
            name=file_name.removesuffix(".sql"),
        )
    name, version = file_name.removesuffix(".sql"), int(named[1])
    try:
        sql = content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        raise MigrationError(
            f"migration {name} is not UTF-8 at byte {error.start}: save it as UTF-8", name=name
        ) from None
    works_from, in_transaction = max(version - 1, 1), True
    for directive in _directives(sql):
        if directive == "no transaction":
            in_transaction = False
        elif (words := directive.split())[:2] == ["works", "from"] and _names_version(
            words[2:], up_to=version
        ):
            works_from = int(words[2])
        else:
            raise MigrationError(
                f"migration {name} has the directive {directive!r}, which is none: there are"
                f" 'no transaction' and 'works from N', with N from 1 to {version}",
                name=name,
            )
    return MigrationFile(
        version=version,
        name=name,
        sql=sql,
        checksum=hashlib.sha256(sql.encode()).hexdigest(),
        works_from=works_from,
        in_transaction=in_transaction,
    )


def _read(entry: Traversable) -> MigrationFile:
    return parse_file(entry.name, entry.read_bytes())


def _directives(sql: str) -> list[str]:
    """Return the directives among the comment lines that open the file."""
    found: list[str] = []
    for line in sql.splitlines():
        if not line.startswith("--"):
            break
        if (directive := _DIRECTIVE.fullmatch(line)) and directive[1] != "next":
            found.append(directive[1])
    return found


def _names_version(words: Sequence[str], *, up_to: int) -> bool:
    return len(words) == 1 and words[0].isdecimal() and 1 <= int(words[0]) <= up_to
