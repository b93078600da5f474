"""The rpcs about schedules: decode, call the service, encode."""

from __future__ import annotations

from wherry.server.caller import Caller
from wherry.server.grpc.base import Verbs
from wherry.server.service import AskedSchedule, within
from wherry.wire.schedules import read_new_schedule, write_schedule, write_stood, write_tick
from wherry.wire.v1 import schedules_pb2 as pb
from wherry.wire.values import read_instant


class ScheduleVerbs(Verbs):
    """The rpcs about schedules."""

    async def list_schedules(
        self, caller: Caller, request: pb.ListSchedulesRequest
    ) -> pb.ListSchedulesResponse:
        """List the schedules there are."""
        found = await self.service.list_schedules(caller)
        return pb.ListSchedulesResponse(schedules=[write_schedule(seen) for seen in found])

    async def get_schedule(
        self, caller: Caller, request: pb.GetScheduleRequest
    ) -> pb.GetScheduleResponse:
        """Read one schedule."""
        seen = await self.service.get_schedule(caller, name=request.name)
        return pb.GetScheduleResponse(schedule=write_schedule(seen))

    async def list_ticks(
        self, caller: Caller, request: pb.ListTicksRequest
    ) -> pb.ListTicksResponse:
        """List what became of a schedule's times."""
        has_before = request.HasField("before")
        before = read_instant(request.before, option="before") if has_before else None
        ticks = await self.service.list_ticks(
            caller, name=request.name, limit=request.page_size or 100, before=before
        )
        return pb.ListTicksResponse(ticks=[write_tick(tick) for tick in ticks])

    async def add_schedule(
        self, caller: Caller, request: pb.AddScheduleRequest
    ) -> pb.AddScheduleResponse:
        """Add a schedule by hand."""
        added = await self.service.add_schedule(
            caller,
            schedule=AskedSchedule(**read_new_schedule(request.schedule)),
            reason=request.reason or None,
        )
        return pb.AddScheduleResponse(added=added)

    async def declare_schedules(
        self, caller: Caller, request: pb.DeclareSchedulesRequest
    ) -> pb.DeclareSchedulesResponse:
        """Let stand what the code of a worker declares."""
        self.service.refuse_too_many(request.schedules, of="schedules")
        schedules: list[AskedSchedule] = []
        for n, each in enumerate(request.schedules):
            with within(f"schedules[{n}]"):
                schedules.append(AskedSchedule(**read_new_schedule(each)))
        stood = await self.service.declare_schedules(
            caller,
            worker=request.worker_id,
            instance=request.instance or None,
            schedules=schedules,
        )
        return write_stood(stood)

    async def run_schedule(
        self, caller: Caller, request: pb.RunScheduleRequest
    ) -> pb.RunScheduleResponse:
        """Store one task of a schedule now."""
        stored = await self.service.run_schedule(
            caller, name=request.name, reason=request.reason or None
        )
        return pb.RunScheduleResponse(id=stored.id)

    async def pause_schedule(
        self, caller: Caller, request: pb.PauseScheduleRequest
    ) -> pb.PauseScheduleResponse:
        """Let a schedule bring no task until it is resumed."""
        changed = await self.service.pause_schedule(
            caller, name=request.name, reason=request.reason or None
        )
        return pb.PauseScheduleResponse(changed=changed)

    async def resume_schedule(
        self, caller: Caller, request: pb.ResumeScheduleRequest
    ) -> pb.ResumeScheduleResponse:
        """Let a paused schedule bring tasks again."""
        changed = await self.service.resume_schedule(
            caller, name=request.name, reason=request.reason or None
        )
        return pb.ResumeScheduleResponse(changed=changed)

    async def delete_schedule(
        self, caller: Caller, request: pb.DeleteScheduleRequest
    ) -> pb.DeleteScheduleResponse:
        """Delete a schedule that no live worker declares."""
        changed = await self.service.delete_schedule(
            caller, name=request.name, reason=request.reason or None
        )
        return pb.DeleteScheduleResponse(changed=changed)
