"""Makes up requests from a document and sends them; a program of its own.

Which values are tried depends on the constants in every module of ours that the process has
imported. Here that is this one only, so that the examples are the same at every run.
"""

from __future__ import annotations

import json
import re
import sys
from typing import Any

import schemathesis
from schemathesis.config import SchemathesisConfig
from schemathesis.engine import events, from_schema

EXAMPLES = 16
SEED = 1
# A server without tokens takes everybody's.
NOT_HERE = ("ignored_auth", "missing_required_header")
# Each item of a batch is judged by itself: a bad one gets its problem in an answer that is good.
BATCHES = ("EnqueueBatch", "Report")
# No made-up text is a lease, whatever its form.
OF_A_LEASE = ("Complete", "Fail", "Snooze", "Release")
# Nor is any a cron expression, or a zone.
OF_A_CRON = ("AddSchedule", "DeclareSchedules")
# A query may be too long to be read at all.
REFUSED = ["400", "401", "403", "404", "405", "406", "409", "415", "429", "431", "5xx"]


def configured(base: str) -> SchemathesisConfig:
    off = {"enabled": False}
    return SchemathesisConfig.from_dict(
        {
            "seed": SEED,
            "base-url": base,
            "request-timeout": 30,
            "continue-on-failure": True,
            "generation": {
                "deterministic": True,
                "max-examples": EXAMPLES,
                "database": "none",
                # Limits are in bytes, of which the document can only say how many characters.
                "codec": "ascii",
                # Of a payload it cannot say that PostgreSQL stores no NUL.
                "allow-x00": False,
                "no-shrink": True,
            },
            "checks": {
                **dict.fromkeys(NOT_HERE, off),
                "negative_data_rejection": {"expected-statuses": REFUSED},
            },
            "phases": {"stateful": off},
            "operations": [
                {"include-operation-id": name, "checks": {check: off}}
                for names, check in (
                    (BATCHES, "negative_data_rejection"),
                    ((*OF_A_LEASE, *OF_A_CRON), "positive_data_acceptance"),
                )
                for name in names
            ],
        }
    )


def whole(value: Any) -> Any:
    """Return JSON with `42` for `42.0`, which is an integer to JSON Schema, but not to us."""
    match value:
        case float() if value.is_integer() and abs(value) < 2**53:
            return int(value)
        case list():
            return [whole(item) for item in value]
        case dict():
            return {name: whole(item) for name, item in value.items()}
        case _:
            return value


@schemathesis.hook("before_call")
def made_gentle(context: Any, case: Any, kwargs: Any) -> None:
    """Let nobody wait a minute for tasks, and write integers as we read them."""
    case.body = whole(case.body)
    match case.body:
        case {"wait": str() as wait} if re.fullmatch(r"[0-9.]+s", wait):
            case.body = {**case.body, "wait": "0.05s"}
        case _:
            pass


def failures(document: dict[str, Any], base: str) -> tuple[list[str], int]:
    """Return what schemathesis complains of, and how many requests it sent."""
    schema = schemathesis.openapi.from_dict(document, config=configured(base))
    found: list[str] = []
    requests = 0
    for event in from_schema(schema).execute():
        if isinstance(event, events.NonFatalError | events.FatalError):
            found.append(repr(event))
        if isinstance(event, events.ScenarioFinished):
            requests += len(event.recorder.interactions)
            for case_id, checks in event.recorder.checks.items():
                for check in checks:
                    if check.failure_info is None:
                        continue
                    interaction = event.recorder.interactions[case_id]
                    response = interaction.response
                    found.append(
                        f"{event.label} {check.name}: {interaction.request.method}"
                        f" {interaction.request.uri} {(interaction.request.body or b'')[:500]!r}"
                        f" -> {response and response.status_code}"
                        f" {response and response.content[:300]!r}:"
                        f" {str(check.failure_info.failure)[:300]}"
                    )
    return found, requests


if __name__ == "__main__":
    json.dump(failures(json.load(sys.stdin), sys.argv[1]), sys.stdout)
