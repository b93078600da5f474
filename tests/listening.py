"""Ending a server of asyncio without leaving a connection behind."""

from __future__ import annotations

import asyncio


async def stop_listening(server: asyncio.Server) -> None:
    """Take no more connections; each that was taken before is handed over, to be closed.

    `server.close()` alone forgets whoever was accepted in the turn of the loop just before: their
    socket stays open, and the garbage collector finds it in the midst of some later test.
    """
    loop = asyncio.get_running_loop()
    for listener in server.sockets:
        loop.remove_reader(listener.fileno())
    # In this turn of the loop they get their transports.
    await asyncio.sleep(0)
    server.close()


async def all_others(*, seconds: float) -> None:
    """Wait for all other tasks of the loop, and for those that they make."""
    async with asyncio.timeout(seconds):
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(others)
