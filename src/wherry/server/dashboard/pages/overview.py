"""The overview: what is wrong first, then what the queues hold and who works."""

from __future__ import annotations

from wherry.server.dashboard.asking import Page, Shown, Visit


async def show_overview(visit: Visit) -> Shown:
    """Show everything at a glance."""
    queues = await visit.read(visit.service.list_queues)
    workers = await visit.read(visit.service.list_workers)
    return Shown("overview.html", "Overview", {"queues": queues, "workers": workers})


PAGES = (Page("", show_overview, nav=""),)
