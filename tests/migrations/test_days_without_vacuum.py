"""What vacuum is told of the days of a database that was in use before."""

from __future__ import annotations

import psycopg

from tests.migrations.support import value
from wherry import migrations
from wherry.migrations.files import read_folder

[FILE] = [file for file in read_folder() if file.name.endswith("_days_without_vacuum")]
DAYS = (
    "select count(*) from pg_class where relname ~ '^finished_[0-9]{8}$'"
    " and coalesce('autovacuum_vacuum_insert_threshold=-1' = any (reloptions), false) = %s"
)


def test_days_of_before_are_not_vacuumed_for_what_was_stored_there(dsn: str) -> None:
    migrations.migrate(dsn, up_to=FILE.version - 1)
    with psycopg.connect(dsn, autocommit=True) as conn:
        there = value(conn, DAYS, False)
        assert there
        assert not value(conn, DAYS, True)

        migrations.migrate(dsn)

        assert value(conn, DAYS, True) == there
        assert not value(conn, DAYS, False)
