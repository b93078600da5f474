"""Which addresses a browser looks at: every page has one at least, and every action.

They are of the shop of `shop.py`; `{id}` is a task of it that is dead.
"""

from __future__ import annotations

# By the page's path.
PAGES: dict[str, str] = {
    "": ".",
    "queues": "queues",
    "queue": "queue?name=payments",
    "workers": "workers",
    "tasks": "tasks?queue=payments",
    "task": "task?id={id}",
    "tasks-going": "tasks-going?do=tasks-cancel&queue=mail&total=900&done=500&after=1&stopped=1",
    "dead": "dead",
    "schedules": "schedules",
    "schedule": "schedule?name=nightly-report",
    "audit": "audit",
    "database": "database",
}
# By the action's path.
ACTIONS: dict[str, str] = {
    "pause": "pause?queue=mail",
    "resume": "resume?queue=webhooks",
    "limits": "limits?queue=mail",
    "pause-type": "pause-type?queue=mail",
    "resume-type": "resume-type?type=send_newsletter",
    "drain": "drain?worker=mail-1",
    "stop": "stop?worker=mail-1",
    "resume-worker": "resume-worker?worker=bulk-1",
    "run-schedule": "run-schedule?name=nightly-report",
    "pause-schedule": "pause-schedule?name=nightly-report",
    "resume-schedule": "resume-schedule?name=sync-catalogue",
    "delete-schedule": "delete-schedule?name=old-cleanup",
    "task-cancel": "task-cancel?id={id}",
    "task-requeue": "task-requeue?id={id}",
    "task-copy": "task-copy?id={id}",
    "task-edit": "task-edit?id={id}",
    "tasks-cancel": "tasks-cancel?queue=mail",
    "tasks-requeue": "tasks-requeue?queue=payments",
    "tasks-reprioritize": "tasks-reprioritize?queue=mail",
    "tasks-reschedule": "tasks-reschedule?queue=mail",
    "tasks-purge": "tasks-purge?ids={id}",
}
EVERY = {**PAGES, **ACTIONS}
