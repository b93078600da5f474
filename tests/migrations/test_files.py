"""Which folders are a series of migrations, and what a file's text says about itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from wherry.errors import MigrationError, MigrationMissing
from wherry.migrations.files import parse_file, read_folder


def write(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).write_text("select 1;\n")
    return folder


def test_files_come_in_the_order_of_their_numbers_and_others_are_left_alone(
    tmp_path: Path,
) -> None:
    write(tmp_path, "0002_b.sql", "0001_a.sql", "__init__.py", "README.md")

    files = read_folder(tmp_path)

    assert [(file.version, file.name) for file in files] == [(1, "0001_a"), (2, "0002_b")]


@pytest.mark.parametrize(
    "name", ["1_short.sql", "0001-dash.sql", "0001_Case.sql", "0001.sql", "0000_zero.sql", "x.sql"]
)
def test_a_name_that_is_no_migrations_name_is_refused(tmp_path: Path, name: str) -> None:
    write(tmp_path, name)

    with pytest.raises(MigrationError, match="call it NNNN_in_a_few_words.sql"):
        read_folder(tmp_path)


def test_two_files_with_one_number_are_refused(tmp_path: Path) -> None:
    write(tmp_path, "0001_a.sql", "0002_b.sql", "0002_c.sql")

    with pytest.raises(MigrationError, match="0002_b and 0002_c have the same number"):
        read_folder(tmp_path)


@pytest.mark.parametrize(
    "names, gone", [(["0001_a.sql", "0003_c.sql"], "0002"), (["0002_b.sql"], "0001")]
)
def test_a_gap_in_the_numbers_is_refused_naming_the_number(
    tmp_path: Path, names: list[str], gone: str
) -> None:
    write(tmp_path, *names)

    with pytest.raises(MigrationMissing, match=f"migration {gone} has no file") as refused:
        read_folder(tmp_path)

    assert refused.value.name == gone


@pytest.mark.parametrize(
    "content", [b"select 1;\r\n\r\n", b"select 1;\r\r", b"\xef\xbb\xbfselect 1;\n\n"]
)
def test_line_endings_and_byte_order_mark_are_the_same_migration(content: bytes) -> None:
    assert parse_file("0001_a.sql", content) == parse_file("0001_a.sql", b"select 1;\n\n")


def test_any_other_change_of_the_text_is_another_checksum() -> None:
    first, second = (parse_file("0001_a.sql", text) for text in (b"select 1;", b"select 1; "))

    assert first.checksum != second.checksum


def test_a_file_that_is_not_utf8_is_refused_naming_the_byte() -> None:
    with pytest.raises(MigrationError, match="0001_a is not UTF-8 at byte 8"):
        parse_file("0001_a.sql", b"select '\xe4';")


def test_a_file_works_with_the_code_of_one_file_earlier_unless_it_says_otherwise() -> None:
    assert parse_file("0007_a.sql", b"select 1;").works_from == 6
    assert parse_file("0001_a.sql", b"select 1;").works_from == 1
    assert parse_file("0007_a.sql", b"-- Why.\n-- wherry: works from 7\n").works_from == 7


def test_a_file_without_a_transaction_is_parted_at_its_marks() -> None:
    file = parse_file("0001_a.sql", b"-- wherry: no transaction\nfirst;\n-- wherry: next\nsecond;")

    assert not file.in_transaction
    assert list(file.statements) == ["-- wherry: no transaction\nfirst;\n", "\nsecond;"]


@pytest.mark.parametrize("directive", ["no transactions", "works from 3", "works from", "works"])
def test_a_directive_that_is_none_is_refused(directive: str) -> None:
    with pytest.raises(MigrationError, match="which is none"):
        parse_file("0002_a.sql", f"-- wherry: {directive}\nselect 1;".encode())


def test_a_comment_further_down_is_no_directive() -> None:
    assert parse_file("0001_a.sql", b"select 1;\n-- wherry: no transaction\n").in_transaction
