"""docs/reference/metrics.md is what there is: no metric more, none less, each in its words.

What a real server, worker and supervisor show is held against the same families in
tests/server/http/test_metrics.py, test_worker_metrics.py and tests/cli/test_metrics.py.
"""

from __future__ import annotations

import pytest

from tests.house.test_documents import table
from wherry.telemetry.families import FAMILIES, FLEET, PROCESS, SERVER, SUPERVISOR, WORKER, Family

PARTS = {
    "of all tasks": FLEET,
    "of a process": PROCESS,
    "of a worker": WORKER,
    "of a server": SERVER,
    "of a supervisor": SUPERVISOR,
}


def row(family: Family) -> list[str]:
    """Return a family as the page tells it."""
    labels = ", ".join(f"`{label}`" for label in family.labels)
    more = "the highest" if family.of_many == "max" else "the sum"
    cells = [f"`{family.name}`", family.kind, labels, family.help]
    return [*cells, more] if family in WORKER else cells


@pytest.mark.parametrize("part", PARTS)
def test_every_metric_stands_in_the_reference(part: str) -> None:
    expected = [row(family) for family in PARTS[part]]

    found = table("docs/reference/metrics.md", f"metrics {part}")

    assert found == expected, "\n".join(f"| {' | '.join(cells)} |" for cells in expected)


def test_no_family_is_left_out() -> None:
    assert sum(map(len, PARTS.values())) == len(FAMILIES)
