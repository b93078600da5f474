"""The narrow waist: everything that Wherry can be asked to do.

VERBS says which commands a call of App sends, by the short name that the call has for people;
`cancel_many` and the like send the same. What a worker alone sends (a beat, a wait) has no verb.
"""

from typing import Any, Final

from wherry.commands.audit import PruneAudit
from wherry.commands.base import Command
from wherry.commands.copying import CopyTask
from wherry.commands.declaring import AddSchedule
from wherry.commands.finding import CountTasks, GroupDeadTasks, ListTasks
from wherry.commands.fronts import RescueTasks
from wherry.commands.leases import (
    CompleteInTransaction,
    CompleteTasks,
    FailTasks,
    GiveBackTasks,
    HeartbeatLeases,
    LeaseTasks,
)
from wherry.commands.looking import WhyTask
from wherry.commands.maintenance import (
    CatchUpIds,
    DiscardTasks,
    DropPastDays,
    MakeDays,
    PromoteTasks,
    ReapLeases,
    ReapOrphans,
    UnparkTasks,
)
from wherry.commands.queues import (
    ListPausedTypes,
    ListQueues,
    ListReadyQueues,
    PauseQueue,
    PauseType,
    ResumeQueue,
    ResumeType,
    SetQueueLimits,
)
from wherry.commands.replanning import ReprioritizeTasks, RescheduleTasks
from wherry.commands.schedules import (
    DeleteSchedule,
    ListSchedules,
    ListTicks,
    PauseSchedule,
    PruneTicks,
    ResumeSchedule,
    RunSchedule,
)
from wherry.commands.scheduling import SettleSchedules
from wherry.commands.tally import RollFlow
from wherry.commands.tasks import (
    CancelTasks,
    DrawTaskIds,
    EnqueueTasks,
    GetTask,
    PurgeTasks,
    RequeueTasks,
)
from wherry.commands.workers import DirectWorkers, ForgetWorkers, ListWorkers

VERBS: Final[dict[str, tuple[type[Command[Any]], ...]]] = {
    "enqueue": (DrawTaskIds, EnqueueTasks),
    "get_task": (GetTask,),
    "list_tasks": (ListTasks,),
    "count_tasks": (CountTasks,),
    "group_dead_tasks": (GroupDeadTasks,),
    "result": (GetTask,),
    "why": (WhyTask,),
    "copy_task": (DrawTaskIds, CopyTask),
    "cancel": (CancelTasks,),
    "requeue": (RequeueTasks,),
    "purge": (PurgeTasks,),
    "reprioritize": (ReprioritizeTasks,),
    "reschedule": (RescheduleTasks,),
    "list_queues": (ListQueues,),
    "pause_queue": (PauseQueue,),
    "resume_queue": (ResumeQueue,),
    "list_schedules": (ListSchedules,),
    "get_schedule": (ListSchedules,),
    "list_ticks": (ListTicks,),
    "add_schedule": (AddSchedule,),
    "run_schedule": (DrawTaskIds, RunSchedule),
    "pause_schedule": (PauseSchedule,),
    "resume_schedule": (ResumeSchedule,),
    "delete_schedule": (DeleteSchedule,),
    "set_queue_limits": (SetQueueLimits,),
    "list_paused_types": (ListPausedTypes,),
    "pause_type": (PauseType,),
    "resume_type": (ResumeType,),
    "list_workers": (ListWorkers,),
    "direct_workers": (DirectWorkers,),
    "lease": (ListReadyQueues, LeaseTasks),
    "heartbeat": (HeartbeatLeases,),
    "complete": (CompleteInTransaction, CompleteTasks),
    "fail": (FailTasks,),
    "snooze": (GiveBackTasks,),
    "release": (GiveBackTasks,),
    "reap": (
        MakeDays,
        ReapOrphans,
        RescueTasks,
        CatchUpIds,
        DropPastDays,
        ForgetWorkers,
        PruneAudit,
        PruneTicks,
        ReapLeases,
        UnparkTasks,
        DiscardTasks,
        SettleSchedules,
        PromoteTasks,
        RollFlow,
    ),
}
