"""Dashboard and alerts name only what there is: metrics, their labels, the values of those.

That a real server and worker show these metrics is tested in tests/server/http/test_metrics.py and
tests/telemetry. What Prometheus itself thinks of the rules is in test_promtool.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from wherry.domain.state import State
from wherry.telemetry.families import FAMILIES, PROCESS, SERVER, SUPERVISOR, WORKER

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "deploy" / "prometheus" / "wherry.rules.yml"
DASHBOARD = ROOT / "deploy" / "grafana" / "wherry.json"
# What Prometheus adds to what it scrapes.
ITS_OWN = {"job", "instance", "le"}
# Of `wherry_tasks`: queued is told apart by why.
STATES = {*State} - {State.QUEUED} | {"ready", "delayed", "parked"}

_METRIC = re.compile(r"\b(wherry_\w+)(?:\{([^}]*)\})?")
_MATCHER = re.compile(r'(\w+)\s*(?:=~|!~|!=|=)\s*"([^"]*)"')
_GROUPED = re.compile(r"\b(?:by|without)\s*\(([^)]*)\)")


def family_of(name: str) -> str:
    """Return the family that a name in an expression is of; the name itself if it is of none."""
    base = re.sub(r"_(bucket|sum|count)$", "", name)
    is_histogram = base in FAMILIES and FAMILIES[base].kind == "histogram"
    return base if is_histogram else name


def complaints(expression: str) -> list[str]:
    """Say what an expression names that is not there."""
    found: list[str] = []
    labels: set[str] = set(ITS_OWN)
    for name, matchers in _METRIC.findall(expression):
        family = FAMILIES.get(family_of(name))
        if family is None or (family.kind == "histogram" and name == family.name):
            found.append(f"{name} is not there")
            continue
        labels |= set(family.labels)
        for label, value in _MATCHER.findall(matchers):
            if label not in {*family.labels, *ITS_OWN}:
                found.append(f"{name} has no label {label}")
            if label == "state" and name == "wherry_tasks":
                found += [f"no state {each}" for each in value.split("|") if each not in STATES]
    for names in _GROUPED.findall(expression):
        grouped = {label.strip() for label in names.split(",")}
        found += [f"no label {label} here" for label in sorted(grouped - labels)]
    if not _METRIC.search(expression):
        found.append(f"no metric of ours: {expression}")
    return found


def alerts() -> list[dict[str, Any]]:
    [group] = yaml.safe_load(RULES.read_text())["groups"]
    rules: list[dict[str, Any]] = group["rules"]
    return rules


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(DASHBOARD.read_text())["panels"]
    return found


def expressions() -> Iterator[str]:
    for rule in alerts():
        yield rule["expr"]
    for panel in panels():
        for target in panel.get("targets", []):
            yield target["expr"]


@pytest.mark.parametrize(
    ("expression", "wrong"),
    [
        ("wherry_gone > 0", True),
        ("wherry_task_wait_seconds > 0", True),
        ("wherry_task_wait_seconds_bucket > 0", False),
        ("wherry_tasks_sum > 0", True),
        ('wherry_tasks{stat="ready"} > 0', True),
        ('wherry_tasks{state=~"ready|queued"} > 0', True),
        ('wherry_tasks{state="ready", job="x"} > 0', False),
        ("sum by (queue) (wherry_database_up)", True),
        ("up == 0", True),
    ],
)
def test_a_wrong_name_would_be_noticed(expression: str, wrong: bool) -> None:
    assert bool(complaints(expression)) == wrong


def test_alerts_and_panels_name_only_what_there_is() -> None:
    assert {text: complaints(text) for text in expressions() if complaints(text)} == {}


def test_the_dashboard_shows_everything_that_is_told() -> None:
    shown = {
        family_of(name)
        for panel in panels()
        for target in panel.get("targets", [])
        for name, _ in _METRIC.findall(target["expr"])
    }

    assert set(FAMILIES) - shown == {"wherry_tasks_requeued_total"}


def test_what_is_told_of_all_tasks_is_never_added_up_over_servers() -> None:
    own = {family.name for family in (*PROCESS, *SERVER, *SUPERVISOR, *WORKER)}
    # Of these the worst, or how many servers say so, is what is wanted.
    counted = {"wherry_database_up", "wherry_oldest_due_seconds", "wherry_workers_alive"}
    counted |= {"wherry_tally_age_seconds"}

    for text in expressions():
        for name, _ in _METRIC.findall(text):
            if family_of(name) not in own | counted:
                assert "max without (instance)" in text, text


def test_every_alert_says_what_is_wrong_and_what_to_do() -> None:
    rules = alerts()

    assert len({rule["alert"] for rule in rules}) == len(rules) > 10
    for rule in rules:
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"].keys() == {"summary", "description"}


def test_every_alert_has_a_row_in_the_guide() -> None:
    guide = (ROOT / "docs" / "guides" / "metrics.md").read_text()

    assert re.findall(r"^\| `(Wherry\w+)`", guide, re.MULTILINE) == [
        rule["alert"] for rule in alerts()
    ]


def test_panels_lie_side_by_side_and_have_numbers_of_their_own() -> None:
    taken: dict[tuple[int, int], str] = {}
    for panel in panels():
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert (x, y) not in taken, (panel["title"], taken[x, y])
                taken[x, y] = panel["title"]
    assert len({panel["id"] for panel in panels()}) == len(panels())
