"""`wherry token`: make, list and revoke the tokens of those who call a server.

The text of a new token is all that goes to stdout, so that `TOKEN=$(wherry token create ...)` has
it. It is shown this once; what is stored is a hash.
"""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta

import click

from wherry.cli import values
from wherry.cli.asked import Asked, with_database, with_json, with_verbosity
from wherry.cli.opened import opened, operator
from wherry.cli.output import Column, Output, write_out
from wherry.cli.text import moment, plain
from wherry.domain.durations import seconds_from
from wherry.domain.token import (
    Right,
    TokenInfo,
    check_globs,
    check_rights,
    check_token_name,
    draw_token,
    looks_like_a_token,
    read_token,
)
from wherry.errors import WherryError

_TOKENS = (
    Column("id", whole=True),
    Column("name"),
    Column("state", whole=True),
    Column("rights"),
    Column("queues"),
    Column("expires", whole=True),
    Column("last used", whole=True),
    Column("created by"),
)


@click.group()
def token() -> None:
    """Make, list and revoke the tokens of those who call a server."""


@token.command()
@click.option("--name", metavar="NAME", required=True, help="Whose it is, such as a service.")
@click.option(
    "--right",
    "rights",
    multiple=True,
    required=True,
    type=click.Choice([str(right) for right in Right]),
    help="What it allows; repeatable.",
)
@click.option(
    "--queue",
    "queues",
    metavar="GLOB",
    multiple=True,
    required=True,
    help="For which queues, such as 'mail.*', or '*' for all; repeatable.",
)
@click.option(
    "--expires-in",
    metavar="DURATION",
    type=values.duration,
    help="When it ends by itself, such as 30d (default: when it is revoked).",
)
@with_database
@with_json
@with_verbosity
@click.pass_obj
def create(
    asked: Asked,
    /,
    name: str,
    rights: tuple[str, ...],
    queues: tuple[str, ...],
    expires_in: timedelta | None,
) -> None:
    """Make a token, and show it this once."""
    from wherry.commands.tokens import CreateToken

    new = draw_token()
    command = CreateToken(
        id=new.id,
        name=check_token_name(name),
        hash=new.hash,
        rights=check_rights(rights),
        queues=check_globs(queues),
        created_by=operator().name,
        lasts_seconds=(
            None
            if expires_in is None
            else seconds_from(expires_in, option="expires_in", zero_allowed=False)
        ),
    )
    with opened(asked) as app:
        info = app.carry(command, call="create_token")
    if info is None:
        raise WherryError(
            f"a token named {name!r} is there, and not revoked: choose another name, or"
            " wherry token revoke it first"
        )
    out = Output(asked)
    if out.as_json:
        out.json({"token": new.reveal(), **asdict(info)})
        return
    write_out(new.reveal() + "\n")
    ends = "it never expires" if info.expires_at is None else f"until {moment(info.expires_at)}"
    out.note(
        f"token {info.id} ({plain(info.name)}): {', '.join(info.rights)} on"
        f" {plain(', '.join(info.queues))}; {ends}; it is not shown again"
    )


@token.command(name="list")
@click.option("--all", "everything", is_flag=True, help="Also those that are over.")
@with_database
@with_json
@with_verbosity
@click.pass_obj
def list_tokens(asked: Asked, /, everything: bool) -> None:
    """List tokens, newest first; what a token itself is nobody can tell any more."""
    from wherry.commands.tokens import MOST_LISTED, ListTokens

    with opened(asked) as app:
        found = app.carry(ListTokens(everything=everything), call="list_tokens")
    out = Output(asked)
    if out.as_json:
        out.json({"tokens": [asdict(info) for info in found]})
        return
    if not found:
        out.note("no tokens")
        return
    out.table(_TOKENS, [_row(info) for info in found])
    if len(found) == MOST_LISTED:
        out.note(f"these are the newest {MOST_LISTED:,}")


@token.command()
@click.argument("named", metavar="ID_OR_NAME")
@with_database
@with_json
@with_verbosity
@click.pass_obj
def revoke(asked: Asked, /, named: str) -> None:
    """End a token for good; servers refuse it within five seconds."""
    from wherry.commands.tokens import RevokeToken

    # Somebody in a hurry may paste the whole text: it must get no further than here.
    pasted = read_token(named.strip())
    if pasted is not None:
        named = pasted.id
    elif looks_like_a_token(named):
        raise click.UsageError("that begins like a token, and is none: give its id or its name")
    with opened(asked) as app:
        revoked = app.carry(RevokeToken(named), call="revoke_token")
    if revoked is None:
        raise WherryError(f"no token has the id or the name {named!r}: wherry token list --all")
    out = Output(asked)
    if out.as_json:
        out.json({"revoked": revoked.now, **asdict(revoked.token)})
        return
    what = f"token {revoked.token.id} ({plain(revoked.token.name)})"
    when = "" if revoked.now else f" before, {moment(revoked.token.revoked_at)}"
    out.line(f"{what} was revoked{when}" if when else f"revoked {what}")


def _row(info: TokenInfo) -> tuple[str, ...]:
    return (
        info.id,
        info.name,
        info.state,
        ", ".join(info.rights),
        ", ".join(info.queues),
        moment(info.expires_at) or "never",
        moment(info.last_used_at) or "never",
        info.created_by,
    )
