"""What ends a benchmark before its end; only `wherry bench` can meet it, no program."""

from __future__ import annotations

from wherry.errors import WherryError


class BenchmarkFailed(WherryError):
    """A process or a server did not do its part, or a task was lost or ran twice: no figures."""
