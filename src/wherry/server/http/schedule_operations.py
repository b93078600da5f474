"""What HTTP can be asked about schedules: a part of the table in operations.py."""

from __future__ import annotations

from typing import Final

from wherry.server.http import operator_bodies as operators
from wherry.server.http import schedule_bodies as schedules
from wherry.server.http import schedule_calls
from wherry.server.http.operation import Operation

SCHEDULE_OPERATIONS: Final = (
    Operation(
        "ListSchedules",
        "GET",
        "/schedules",
        operators.NoQuery,
        schedules.ListSchedulesResponse,
        schedule_calls.list_schedules,
        "List the schedules there are.",
    ),
    Operation(
        "GetSchedule",
        "GET",
        "/schedules:find",
        schedules.GetScheduleRequest,
        schedules.GetScheduleResponse,
        schedule_calls.get_schedule,
        "Read one schedule.",
        (404,),
    ),
    Operation(
        "ListTicks",
        "GET",
        "/schedules:ticks",
        schedules.ListTicksRequest,
        schedules.ListTicksResponse,
        schedule_calls.list_ticks,
        "List what became of a schedule's times, newest first.",
        (404,),
    ),
    Operation(
        "AddSchedule",
        "POST",
        "/schedules",
        schedules.AddScheduleRequest,
        schedules.AddScheduleResponse,
        schedule_calls.add_schedule,
        "Add a schedule by hand, which fires until it is deleted.",
        (201,),
    ),
    Operation(
        "DeclareSchedules",
        "POST",
        "/schedules:declare",
        schedules.DeclareSchedulesRequest,
        schedules.DeclareSchedulesResponse,
        schedule_calls.declare_schedules,
        "A worker says which schedules its code declares.",
    ),
    Operation(
        "RunSchedule",
        "POST",
        "/schedules:run",
        schedules.RunScheduleRequest,
        schedules.RunScheduleResponse,
        schedule_calls.run_schedule,
        "Store one task of a schedule now.",
        (201, 404),
    ),
    Operation(
        "PauseSchedule",
        "POST",
        "/schedules:pause",
        schedules.PauseScheduleRequest,
        schedules.PauseScheduleResponse,
        schedule_calls.pause_schedule,
        "Let a schedule bring no task until it is resumed.",
        (404,),
    ),
    Operation(
        "ResumeSchedule",
        "POST",
        "/schedules:resume",
        schedules.ResumeScheduleRequest,
        schedules.ResumeScheduleResponse,
        schedule_calls.resume_schedule,
        "Let a paused schedule bring tasks again.",
        (404,),
    ),
    Operation(
        "DeleteSchedule",
        "POST",
        "/schedules:delete",
        schedules.DeleteScheduleRequest,
        schedules.DeleteScheduleResponse,
        schedule_calls.delete_schedule,
        "Delete a schedule that no live worker declares, with its history.",
        (404,),
    ),
)
