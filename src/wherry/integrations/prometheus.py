"""Wherry's numbers for Prometheus, by the library prometheus-client: the extra `metrics`.

    from prometheus_client import REGISTRY
    from wherry.integrations.prometheus import Collector

    REGISTRY.register(Collector(app))       # before the App's workers begin

shows what `wherry worker --metrics` does, in a program that runs its worker itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector as _Collector

from wherry.domain.flow import BOUNDS_SECONDS
from wherry.telemetry.families import FAMILIES, Family
from wherry.telemetry.meters import Meters
from wherry.telemetry.readings import Buckets, Reading

if TYPE_CHECKING:
    from wherry.app.app import App


class Shown(_Collector):
    """What *read* returns, in the form of prometheus-client."""

    def __init__(self, read: Callable[[], Iterable[Reading]]) -> None:
        self._read = read

    def describe(self) -> list[Metric]:
        """Return nothing: registering asks nobody for numbers."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield each family of which there is something to tell."""
        found: dict[str, Any] = {}
        for name, labels, value in self._read():
            family = FAMILIES[name]
            if name not in found:
                found[name] = _metric(family)
            if isinstance(value, Buckets):
                found[name].add_metric(labels, _cumulated(family, value), value.sum)
            else:
                found[name].add_metric(labels, value)
        yield from found.values()


class Collector(Shown):
    """The numbers of an App in this process: its commands, its pools, its workers.

    Make it before the App's workers begin: only then are their commands counted, too.
    """

    def __init__(self, app: App) -> None:
        super().__init__(metered(app).read)


def metered(app: App) -> Meters:
    """Return the meters of an App, which gets some now if it has none."""
    if app.meters is None:
        app.meters = Meters()
        app.meters.ask(lambda: _pools(app))
    return app.meters


def _pools(app: App) -> list[Reading]:
    uses = app.pool_use
    if not uses:
        return []
    free = sum(use.free for use in uses)
    used = sum(use.open for use in uses) - free
    return [
        Reading("wherry_pool_connections", ("free",), free),
        Reading("wherry_pool_connections", ("used",), max(0, used)),
        Reading("wherry_pool_connections_most", (), sum(use.most for use in uses)),
        Reading("wherry_pool_waiting", (), sum(use.waiting for use in uses)),
    ]


def _metric(family: Family) -> Any:
    kinds: dict[str, Any] = {
        "counter": CounterMetricFamily,
        "gauge": GaugeMetricFamily,
        "histogram": HistogramMetricFamily,
    }
    return kinds[family.kind](family.name, family.help, labels=family.labels)


def _cumulated(family: Family, value: Buckets) -> list[tuple[str, float]]:
    bounds = [str(bound) for bound in family.bounds or BOUNDS_SECONDS]
    return list(zip([*bounds, "+Inf"], accumulate(value.counts), strict=True))
