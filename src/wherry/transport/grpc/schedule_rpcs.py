"""Which rpc carries which command about schedules."""

from __future__ import annotations

from typing import Any

from wherry.commands.declaring import AddSchedule, DeclareSchedules
from wherry.commands.schedules import (
    DeleteSchedule,
    ListSchedules,
    ListTicks,
    PauseSchedule,
    ResumeSchedule,
    RunSchedule,
)
from wherry.domain.task import Enqueued
from wherry.transport.grpc.rpc import Me, Rpc
from wherry.wire.schedules import read_schedule, read_stood, read_tick, write_new_schedule
from wherry.wire.v1 import schedules_pb2 as pb
from wherry.wire.values import write_instant


def of_schedules(command: object, me: Me, reason: str | None) -> Rpc[Any] | None:
    """Return the rpc of a command about schedules; None for any other."""
    match command:
        case AddSchedule():
            return Rpc(
                method="AddSchedule",
                request=pb.AddScheduleRequest(
                    schedule=write_new_schedule(command.schedule),
                    reason=reason or command.reason or "",
                ),
                read=lambda response: response.added,
            )
        case DeclareSchedules():
            return Rpc(
                method="DeclareSchedules",
                request=pb.DeclareSchedulesRequest(
                    worker_id=me.worker,
                    instance=command.instance,
                    schedules=[write_new_schedule(each) for each in command.schedules],
                ),
                read=read_stood,
            )
        case ListSchedules() if command.name is None:
            return Rpc(
                method="ListSchedules",
                request=pb.ListSchedulesRequest(),
                read=lambda response: [read_schedule(each) for each in response.schedules],
            )
        case ListSchedules():
            return Rpc(
                method="GetSchedule",
                request=pb.GetScheduleRequest(name=command.name or ""),
                read=lambda response: [read_schedule(response.schedule)],
                if_missing=list,
            )
        case ListTicks():
            asked = pb.ListTicksRequest(name=command.name, page_size=command.limit)
            if command.before is not None:
                asked.before.CopyFrom(write_instant(command.before))
            return Rpc(
                method="ListTicks",
                request=asked,
                read=lambda response: [read_tick(tick) for tick in response.ticks],
            )
        case RunSchedule():
            why = reason or command.reason or ""
            return Rpc(
                method="RunSchedule",
                request=pb.RunScheduleRequest(name=command.name, reason=why),
                read=lambda response: Enqueued(response.id, True),
                # Nothing tells the server that it is the same run once more.
                repeatable=False,
            )
        case PauseSchedule():
            why = reason or command.reason or ""
            return Rpc(
                method="PauseSchedule",
                request=pb.PauseScheduleRequest(name=command.name, reason=why),
                read=lambda response: response.changed,
            )
        case ResumeSchedule():
            why = reason or command.reason or ""
            return Rpc(
                method="ResumeSchedule",
                request=pb.ResumeScheduleRequest(name=command.name, reason=why),
                read=lambda response: response.changed,
            )
        case DeleteSchedule():
            why = reason or command.reason or ""
            return Rpc(
                method="DeleteSchedule",
                request=pb.DeleteScheduleRequest(name=command.name, reason=why),
                read=lambda response: response.changed,
            )
        case _:
            return None
