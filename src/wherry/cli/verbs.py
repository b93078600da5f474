"""The verbs of `wherry`, put together."""

from __future__ import annotations

import click

from wherry import __version__
from wherry.cli.audit import audit
from wherry.cli.bench import bench
from wherry.cli.cron import cron
from wherry.cli.dead import dead
from wherry.cli.doctor import doctor
from wherry.cli.enqueue import enqueue
from wherry.cli.entry import Door
from wherry.cli.migrate import migrate
from wherry.cli.queues import queues
from wherry.cli.server import server
from wherry.cli.tasks import tasks
from wherry.cli.textual import only_text
from wherry.cli.token import token
from wherry.cli.top import top
from wherry.cli.types import types
from wherry.cli.up import up
from wherry.cli.worker import worker
from wherry.cli.workers import workers


@click.group(cls=Door, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="wherry", message="%(prog)s %(version)s")
def main() -> None:
    """Work with a Wherry task queue in PostgreSQL."""


_RUN = (up, worker, server, migrate, bench)
_LOOK = (enqueue, tasks, dead, queues, types, cron, workers, top, doctor, token, audit)

for verb in (*_RUN, *_LOOK):
    main.add_command(verb)
only_text(main)
