"""However a DSN is written, its password is in no error, no repr and nothing that is printed."""

from __future__ import annotations

import pickle
from urllib.parse import quote

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import wherry
from tests.fuzz.hostile import EVERY
from wherry.cli import main
from wherry.dsn import is_server, read_dsn, read_server

SECRET = "hunter2"
# Nobody listens there, so whoever tries is refused at once.
NOWHERE = "127.0.0.1:1"
PASSWORDS = (SECRET, f"{SECRET}@host", f"a/{SECRET}", f"{SECRET}:", f"'{SECRET}'", f"%{SECRET}%",
             f"{SECRET} x", f"[{SECRET}]", f"#{SECRET}?", f"\\{SECRET}", f"é{SECRET}")  # fmt: skip
READABLE = [
    *(f"postgresql://u:{quote(password, safe='')}@{NOWHERE}/db" for password in PASSWORDS),
    f"postgres://u:{SECRET}@[::1]:1/db",
    f"postgresql://u:{SECRET}@{NOWHERE},127.0.0.1:2/db?connect_timeout=2",
    f"postgresql://{NOWHERE}/db?user=u&password={SECRET}",
    f"postgresql://u:{SECRET}@%2Fnowhere/db",
    f"postgresql:///db?host=/nowhere&user=u&password={SECRET}",
    f"host=127.0.0.1 port=1 user=u password={SECRET}",
    f"host=127.0.0.1 port=1 user=u password='a\\'{SECRET} @/'",
    f"host=/nowhere user=u password = {SECRET}",
]
UNREADABLE = [
    *(f"postgresql://u:{password}@{NOWHERE}/db?x" for password in PASSWORDS),
    f"postgresql://u:{SECRET}@[::1/db",
    f"postgresql://u:{SECRET}%zz@{NOWHERE}/db",
    f"postgresql://u:{SECRET}@{NOWHERE}/db?paswort={SECRET}",
    f"host=127.0.0.1 password='{SECRET}",
    f"password={SECRET} host",
    f"mysql://u:{SECRET}@{NOWHERE}/db",
    f"u:{SECRET}@{NOWHERE}/db",
    f"host=127.0.0.1 port=x password={SECRET}",
    f"host=127.0.0.1 password={SECRET}\0 port=1",
    f"grpc://u:{SECRET}@{NOWHERE}",
    f"grpc://{NOWHERE}?token={SECRET}",
    f"grpcs://{NOWHERE}/{SECRET}",
    f"grpc://[{SECRET}",
    f"GRPC://u:{SECRET}@{NOWHERE}",
]


def said_by(error: BaseException) -> str:
    """Return whatever of an error may come into a log."""
    found = [str(error), repr(error), *map(str, getattr(error, "__notes__", ()))]
    shown = (error.__cause__, None if error.__suppress_context__ else error.__context__)
    found += [said_by(before) for before in shown if before is not None]
    return "\n".join(found)


@pytest.mark.parametrize("dsn", READABLE)
def test_a_database_that_is_away_is_told_of_without_the_password(dsn: str) -> None:
    """SEC-06."""
    app = wherry.App(dsn, pool_timeout=0.5)

    with pytest.raises(wherry.Unavailable) as raised:
        app.list_queues()

    assert SECRET not in said_by(raised.value)
    assert SECRET not in repr(app)
    assert SECRET not in said_by(pickle.loads(pickle.dumps(raised.value)))


@pytest.mark.parametrize("dsn", [*READABLE, *UNREADABLE])
def test_the_command_line_never_shows_the_password(
    dsn: str, monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    """SEC-06."""
    monkeypatch.chdir(str(tmp_path))
    monkeypatch.setenv("WHERRY_HOME", str(tmp_path))

    answer = CliRunner().invoke(main, ["queues", "list", "-v", f"--dsn={dsn}"])

    assert isinstance(answer.exception, SystemExit), answer.exception
    assert answer.exit_code in (2, 3)
    assert SECRET not in answer.output


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.sampled_from(["postgresql://", "postgres:", "host=", "password=", "grpc://", "grpcs:",
                         SECRET, "@", ":", "/", "?", "&", "[", "]", "%", "%40", "'", " ", *EVERY]),
        max_size=8,
    )
)  # fmt: skip
def test_any_text_is_read_or_refused_in_a_sentence_that_repeats_nothing(parts: list[str]) -> None:
    dsn = "".join(parts)
    said = ""
    try:
        read_server(dsn) if is_server(dsn) else read_dsn(dsn)
    except wherry.ConfigError as error:
        said = said_by(error)
    assert SECRET not in said
