"""What a look at a database comes to: for each check a verdict, what was seen, and what to do.

`unknown` is no verdict on the database: something kept us from looking, such as a right that the
role lacks, and the words say what.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class Verdict(StrEnum):
    """How bad it is, the worst first; `unknown` stands before what is known to be fine."""

    PROBLEM = "problem"
    WARNING = "warning"
    UNKNOWN = "unknown"
    OK = "ok"


class Judgment(NamedTuple):
    """What one check came to: the verdict, a line of what was seen, and one of what to do."""

    verdict: Verdict
    seen: str
    advice: str | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """A judgment, and the name of the check that it is of. `advice` is None where all is well."""

    check: str
    verdict: Verdict
    seen: str
    advice: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """Everything that one look found, and where it looked.

    `server` and `database` say where, `role` as whom; `findings` are in the order of the checks.
    `left_out` names the checks that had nothing to look at, since the schema is not there.
    """

    server: str
    database: str
    role: str
    schema: str
    wherry_version: str
    findings: tuple[Finding, ...]
    left_out: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of all findings."""
        found = {finding.verdict for finding in self.findings}
        return next((verdict for verdict in Verdict if verdict in found), Verdict.OK)

    def of(self, verdict: Verdict) -> tuple[Finding, ...]:
        """Return the findings with this verdict."""
        return tuple(finding for finding in self.findings if finding.verdict is verdict)

    def worst_first(self) -> Iterator[Finding]:
        """Yield the findings, problems first."""
        for verdict in Verdict:
            yield from self.of(verdict)


def fine(seen: str) -> Judgment:
    """Return that all is well."""
    return Judgment(Verdict.OK, seen)


def warning(seen: str, advice: str) -> Judgment:
    """Return that somebody should look at this soon."""
    return Judgment(Verdict.WARNING, seen, advice)


def problem(seen: str, advice: str) -> Judgment:
    """Return that something is wrong now."""
    return Judgment(Verdict.PROBLEM, seen, advice)


def unknown(seen: str, advice: str | None = None) -> Judgment:
    """Return that it could not be seen."""
    return Judgment(Verdict.UNKNOWN, seen, advice)
