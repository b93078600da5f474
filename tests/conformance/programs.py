"""Programs of their own that call a server, with every warning an error."""

from __future__ import annotations

import asyncio
import os
import re
import sys

CALLS = """
import asyncio, os, sys
import wherry

app = wherry.App(sys.argv[1])
"""


async def program(text: str, *arguments: str, **env: str) -> str:
    """Run a program beside this loop, where every warning is an error; return what it prints."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-X", "dev", "-W", "error", "-c", text, *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **env},
    )
    out, err = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, err.decode()
    # In development mode asyncio also says when a step took long, which tells of the machine.
    slow = re.compile(rb"Executing <.* took [\d.]+ seconds")
    assert [line for line in err.splitlines() if not slow.fullmatch(line)] == []
    return out.decode()
