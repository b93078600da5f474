"""Reads what is served at /metrics, with the parser of prometheus-client."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families


class Sample(NamedTuple):
    """One line of an answer."""

    name: str
    labels: tuple[tuple[str, str], ...]
    value: float


class Scraped:
    """One answer, taken apart."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.samples: list[Sample] = []
        # Names of families as they are written in rules: counters with _total.
        self.families: dict[str, str] = {}
        for family in text_string_to_metric_families(text):
            if family.name.startswith("wherry_"):
                suffix = "_total" if family.type == "counter" else ""
                self.families[family.name + suffix] = family.type
                self.samples += [
                    Sample(s.name, tuple(sorted(s.labels.items())), s.value) for s in family.samples
                ]

    def of(self, name: str, **labels: str) -> float:
        """Return the sum of all samples of this name with these labels, 0 if there is none."""
        wanted = set(labels.items())
        return sum(s.value for s in self.samples if s.name == name and wanted <= set(s.labels))

    def has(self, name: str) -> bool:
        """Whether there is a sample of this name."""
        return any(sample.name == name for sample in self.samples)

    def label_values(self, name: str, label: str) -> Iterator[str]:
        """Yield the values of a label."""
        for sample in self.samples:
            if sample.name == name:
                yield dict(sample.labels)[label]


def scrape(url: str, *, token: str | None = None) -> Scraped:
    """Return what is served at this address."""
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=10) as answer:
        assert answer.headers["content-type"].startswith("text/plain; version="), answer.headers
        return Scraped(answer.read().decode())
