"""The example for curl runs as it stands."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import wherry
from wherry.commands.tokens import CreateToken
from wherry.domain.token import draw_token
from wherry.server.auth import Authenticator, Polls
from wherry.server.http import HttpDoor, HttpSettings
from wherry.server.service import Service

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "curl.sh"
PRINTED = """\
stored:    task 1
leased:    greet
heartbeat: extended
complete:  done
again:     already_done
read:      succeeded, Hello, world!
"""


async def run(port: int, **environment: str) -> tuple[int | None, str]:
    """Return how the example ended, and what it printed."""
    process = await asyncio.create_subprocess_exec(
        "sh",
        str(EXAMPLE),
        env={
            "PATH": os.environ["PATH"],
            "WHERRY_URL": f"http://127.0.0.1:{port}",
            "NO_PROXY": "*",
            **environment,
        },
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(60):
        printed, _ = await process.communicate()
    return process.returncode, printed.decode()


async def test_a_task_lives_its_whole_life_by_curl(door: HttpDoor, app: wherry.App) -> None:
    code, printed = await run(door.port)

    assert (code, printed) == (0, PRINTED)
    # Who only fell silent would be missed.
    assert await app.alist_workers() == []


async def test_with_a_token_it_does_where_one_is_needed(service: Service, app: wherry.App) -> None:
    drawn = draw_token()
    await app.acarry(
        CreateToken(
            id=drawn.id,
            name="curl",
            hash=drawn.hash,
            rights=("enqueue", "work", "read"),
            queues=("curl",),
            created_by="me",
        )
    )
    judge = Authenticator(app)
    door = HttpDoor(service, judge, Polls(), HttpSettings(address="127.0.0.1:0"))
    port = await door.start()

    with_one = await run(port, WHERRY_TOKEN=drawn.reveal())
    without = await run(port)
    await door.stop(0.5)
    await judge.aclose()

    assert with_one == (0, PRINTED)
    assert without[0] not in (0, None)
    assert "a token is needed" in without[1]
