"""Errors as gRPC tells them: one status each, by the table that HTTP uses too."""

from __future__ import annotations

from dataclasses import dataclass

import grpc

from wherry.errors import WherryError
from wherry.server.problems import Problem, problem_of
from wherry.wire.status import DETAILS_KEY, facts_of, write_problem, write_status
from wherry.wire.v1 import tasks_pb2


@dataclass(frozen=True, slots=True)
class Refusal:
    """How a call is ended that could not be answered."""

    code: grpc.StatusCode
    text: str
    metadata: tuple[tuple[str, str | bytes], ...]


def refusal_of(error: Exception, *, doing: str) -> Refusal:
    """Return the end of a call that raised *error*; logs what is our fault."""
    problem = problem_of(error, doing=doing)
    code = grpc.StatusCode[problem.grpc_status]
    status = write_status(
        code,
        reason=problem.reason,
        message=problem.detail,
        field=_field_of(problem),
        retry_seconds=problem.retry_seconds,
        id=problem.id,
        # What is no fault of the caller's is nothing to them but its id.
        facts=facts_of(error) if problem.id is None else None,
    )
    return Refusal(code, status.message, ((DETAILS_KEY, status.SerializeToString()),))


def problem_message(error: WherryError, *, doing: str) -> tasks_pb2.Problem:
    """Return what was wrong with one item of a batch."""
    problem = problem_of(error, doing=doing)
    return write_problem(reason=problem.reason, message=problem.detail, field=_field_of(problem))


def _field_of(problem: Problem) -> str | None:
    # Over HTTP it is a parameter that may stand more than once, here a list.
    return "states" if problem.field == "state" else problem.field
