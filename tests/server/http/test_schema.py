"""What the document says is what the server does, shown by requests that are made from it.

Schemathesis makes up requests that the document allows, which must be taken, and some that it does
not, which must be refused; every answer must be one that the document has. The examples are the
same at every run (`made_up.py`).
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from wherry.server.http import HttpDoor


# Hundreds of requests: a busy machine takes long for them.
@pytest.mark.timeout(600)
async def test_whatever_the_document_allows_is_taken_and_what_it_does_not_is_refused(
    door: HttpDoor, root: Callable[[str], str]
) -> None:
    async with httpx.AsyncClient(trust_env=False) as client:
        document = (await client.get(root("/openapi.json"))).content

    asking = await asyncio.create_subprocess_exec(
        *(sys.executable, str(Path(__file__).with_name("made_up.py")), root("/api/v1")),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    said, wrong = await asking.communicate(document)

    assert asking.returncode == 0, wrong.decode()
    found, requests = json.loads(said)
    assert requests > 500
    assert not found, "\n".join(found)
