"""The narrow waist: everything that Wherry can be asked to do, by the verb the doors use for it."""

from wherry.commands.base import Command
from wherry.commands.leases import (
    CompleteInTransaction,
    CompleteTasks,
    FailTasks,
    GiveBackTasks,
    HeartbeatLeases,
    LeaseTasks,
)
from wherry.commands.queues import ListQueues
from wherry.commands.tasks import (
    CancelTasks,
    EnqueueTasks,
    GetTask,
    ListTasks,
    PurgeTasks,
    RequeueTasks,
)

VERBS: dict[str, type[Command[object]]] = {
    "enqueue": EnqueueTasks,
    "lease": LeaseTasks,
    "heartbeat": HeartbeatLeases,
    "complete": CompleteTasks,
    "complete in a transaction": CompleteInTransaction,
    "fail": FailTasks,
    "snooze": GiveBackTasks,
    "release": GiveBackTasks,
    "get task": GetTask,
    "list tasks": ListTasks,
    "cancel": CancelTasks,
    "requeue": RequeueTasks,
    "purge": PurgeTasks,
    "list queues": ListQueues,
}
