"""What files and records may say of each other, decided without a database."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from wherry.errors import (
    MigrationEdited,
    MigrationMissing,
    MigrationRenamed,
    SchemaMissing,
    SchemaTooNew,
    SchemaTooOld,
)
from wherry.migrations.files import MigrationFile, parse_file, read_folder
from wherry.migrations.records import Record, outstanding, own_version, require_current

THEN = datetime(2026, 1, 1, tzinfo=UTC)


def some_files(count: int) -> list[MigrationFile]:
    return [parse_file(f"{n:04}_step.sql", b"select %d;" % n) for n in range(1, count + 1)]


def records_of(files: list[MigrationFile], by: str = "wherry 99.0") -> list[Record]:
    return [
        Record(file.version, file.name, file.checksum, file.works_from, THEN, by) for file in files
    ]


def test_what_the_database_lacks_is_outstanding() -> None:
    files = some_files(3)

    assert outstanding(files, [], schema="s") == files
    assert outstanding(files, records_of(files[:1]), schema="s") == files[1:]
    assert outstanding(files, records_of(files), schema="s") == []


def test_an_edited_file_is_refused_by_migrations_and_by_workers() -> None:
    files = some_files(2)
    edited = [parse_file("0001_step.sql", b"select 0;"), files[1]]

    for judge in (outstanding, require_current):
        with pytest.raises(MigrationEdited, match="0001_step was edited after") as refused:
            judge(edited, records_of(files), schema="s")
        assert refused.value.name == "0001_step"


def test_a_renamed_file_is_refused_naming_both_names() -> None:
    files = some_files(2)
    renamed = [files[0], replace(files[1], name="0002_stride")]

    with pytest.raises(MigrationRenamed, match="0002_step is applied.* now named 0002_stride"):
        outstanding(renamed, records_of(files), schema="s")


def test_a_file_of_this_very_version_that_is_gone_is_missed() -> None:
    files = some_files(2)

    with pytest.raises(MigrationMissing, match="0002_step was applied .* has no file"):
        outstanding(files[:1], records_of(files, by=own_version()), schema="s")


def test_migrating_refuses_a_database_newer_than_the_code() -> None:
    files = some_files(2)

    with pytest.raises(SchemaTooNew, match="at migration 2, .* knows only up to 1: upgrade"):
        outstanding(files[:1], records_of(files), schema="s")


def test_a_record_that_is_gone_is_missed() -> None:
    files = some_files(3)
    records = records_of(files)

    with pytest.raises(MigrationMissing, match="0002 has no record .*'s'.* from a backup"):
        outstanding(files, [records[0], records[2]], schema="s")


def test_a_worker_runs_on_its_own_version_and_on_one_step_newer() -> None:
    files = some_files(3)

    assert require_current(files, records_of(files), schema="s") == 3
    assert require_current(files[:2], records_of(files), schema="s") == 3


def test_a_worker_two_steps_behind_refuses() -> None:
    files = some_files(3)

    with pytest.raises(SchemaTooNew, match="at migration 3, .* only up to 1"):
        require_current(files[:1], records_of(files), schema="s")


def test_code_of_nineteen_files_works_on_those_that_only_make_room() -> None:
    files = read_folder()[:22]

    assert require_current(files[:19], records_of(files), schema="s") == 22


def test_a_worker_refuses_one_step_newer_if_that_step_breaks_it() -> None:
    files = some_files(2)
    breaking = [files[0], replace(files[1], works_from=2)]

    with pytest.raises(SchemaTooNew):
        require_current(files[:1], records_of(breaking), schema="s")


def test_a_worker_refuses_an_older_schema() -> None:
    files = some_files(3)

    with pytest.raises(SchemaTooOld, match="at migration 2, .* needs 3: run `wherry migrate`"):
        require_current(files, records_of(files[:2]), schema="s")


def test_a_schema_without_any_record_is_missing() -> None:
    with pytest.raises(SchemaMissing, match="run `wherry migrate`"):
        require_current(some_files(1), [], schema="s")
