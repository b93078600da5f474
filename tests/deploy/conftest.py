"""Prometheus's own tool says whether it understands us; it is no Python package."""

from __future__ import annotations

import shutil

collect_ignore = [] if shutil.which("promtool") else ["test_promtool.py"]


def pytest_report_header() -> str:
    """Say what is not collected."""
    if not collect_ignore:
        return "promtool: found"
    return "promtool: not on PATH, so tests/deploy/test_promtool.py is not run"
