"""The rpcs about leases: decode, call the service, encode. Lease itself is in `leasing`."""

from __future__ import annotations

from typing import Any

from wherry.errors import InvalidOption, WherryError
from wherry.server.caller import Caller
from wherry.server.grpc.base import Verbs
from wherry.server.grpc.refusals import problem_message
from wherry.server.service import Answered, Beat, Told
from wherry.wire.leases import read_failed, read_outcome
from wherry.wire.v1 import leases_pb2 as pb
from wherry.wire.values import DIRECTIVES, REPORTED, read_duration, write_duration


class LeaseVerbs(Verbs):
    """The rpcs that keep and settle leases."""

    async def heartbeat(self, caller: Caller, request: pb.HeartbeatRequest) -> pb.HeartbeatResponse:
        """Extend leases."""
        most = self.service.settings.heartbeat_limit
        self.service.refuse_too_many(request.leases, of="leases", most=most)
        said: dict[str, Any] = {}
        if request.HasField("extend_by"):
            said["extend_by"] = read_duration(request.extend_by, option="extend_by")
        beaten = await self.service.heartbeat(
            caller,
            leases=list(request.leases),
            worker=request.worker_id or None,
            instance=request.instance or None,
            **said,
        )
        return pb.HeartbeatResponse(
            beats=[_beat(beat) for beat in beaten.answers],
            directive=DIRECTIVES.write(beaten.directive),
        )

    async def complete(self, caller: Caller, request: pb.CompleteRequest) -> pb.CompleteResponse:
        """Finish a leased task."""
        result = request.result if request.HasField("result") else None
        answer = await self.service.complete(caller, lease=request.lease, result_text=result)
        return pb.CompleteResponse(answer=REPORTED.write(answer))

    async def fail(self, caller: Caller, request: pb.FailRequest) -> pb.FailResponse:
        """Record a failed attempt."""
        answered = await self.service.fail(caller, lease=request.lease, **read_failed(request))
        response = pb.FailResponse(answer=REPORTED.write(answered.answer))
        if answered.retry_seconds is not None:
            response.retry_after.CopyFrom(write_duration(answered.retry_seconds))
        return response

    async def snooze(self, caller: Caller, request: pb.SnoozeRequest) -> pb.SnoozeResponse:
        """Put a leased task back for a while."""
        if not request.HasField("delay"):
            raise InvalidOption("delay", None, "is missing: say how long")
        delay = read_duration(request.delay, option="delay")
        answer = await self.service.snooze(caller, lease=request.lease, delay=delay)
        return pb.SnoozeResponse(answer=REPORTED.write(answer))

    async def release(self, caller: Caller, request: pb.ReleaseRequest) -> pb.ReleaseResponse:
        """Give back a leased task that never started."""
        answer = await self.service.release(caller, lease=request.lease)
        return pb.ReleaseResponse(answer=REPORTED.write(answer))

    async def report(self, caller: Caller, request: pb.ReportRequest) -> pb.ReportResponse:
        """Settle many leases."""
        self.service.refuse_too_many(request.outcomes, of="outcomes")
        outcomes = [_told(outcome) for outcome in request.outcomes]
        found = await self.service.report(caller, outcomes=outcomes)
        return pb.ReportResponse(answers=[_answer(answer) for answer in found])


def _beat(beat: Beat) -> pb.Beat:
    if isinstance(beat.answer, WherryError):
        return pb.Beat(answer=pb.REPORTED_INVALID)
    message = pb.Beat(answer=REPORTED.write(beat.answer))
    if beat.remaining_seconds is not None:
        message.remaining.CopyFrom(write_duration(beat.remaining_seconds))
    return message


def _told(outcome: pb.Outcome) -> Told | WherryError:
    try:
        lease, kind, particulars = read_outcome(outcome)
    except WherryError as error:
        return error
    return Told(lease, kind, **particulars)


def _answer(answer: Answered | WherryError) -> pb.ReportAnswer:
    if isinstance(answer, WherryError):
        problem = problem_message(answer, doing="Report")
        return pb.ReportAnswer(answer=pb.REPORTED_INVALID, problem=problem)
    message = pb.ReportAnswer(answer=REPORTED.write(answer.answer))
    if answer.retry_seconds is not None:
        message.retry_after.CopyFrom(write_duration(answer.retry_seconds))
    return message
