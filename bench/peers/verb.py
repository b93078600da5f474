"""`./run bench peers`: our product beside its peers, in turns, and the ratios of each round."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from pathlib import Path

import click

from bench.peers import install, measures
from bench.peers.crew import PeerFailed
from bench.peers.measures import Ground
from bench.peers.roster import PEERS, Peer
from bench.peers.sheets import OURS, PREDICTIONS, Sheets
from bench.peers.stores import Postgres, Redis
from wherry import embedded
from wherry.bench import chart, found
from wherry.bench.options import option
from wherry.cli.output import is_terminal
from wherry.config import DSN_VARIABLE

Run = Callable[[Ground, Peer], dict[str, float]]
OPEN_SECONDS = 0.010
# For all alike, and Wherry's own benchmarks; beside those, `idle` counts statements.
SETTINGS = {
    **found.SETTINGS,
    "shared_preload_libraries": "pg_stat_statements",
    "pg_stat_statements.track": "top",
}


def kinds(*, scale: float, seconds: float) -> Mapping[str, Mapping[str, Run]]:
    """Return what is run for each measure, by the name of its row."""
    return {
        "drain": {
            "tuned x1": partial(measures.drain, scale=scale),
            "tuned x2": partial(measures.drain, processes=2, scale=scale),
            "defaults": partial(measures.drain, tuned=False, scale=scale),
        },
        "enqueue": {
            "one by one": partial(measures.enqueue, bulk=False),
            "bulk": partial(measures.enqueue, bulk=True, scale=scale),
        },
        "latency": {
            "50/s": measures.latency,
            "50/s tx": partial(measures.latency, open_seconds=OPEN_SECONDS),
        },
        "seed": {"20 slots": measures.seed},
        "idle": {"idle": measures.idle},
        "held": {
            "control": partial(measures.held, snapshot=False, seconds=seconds),
            "held": partial(measures.held, snapshot=True, seconds=seconds),
        },
    }


@click.command()
@click.pass_context
def peers(
    context: click.Context,
    /,
    only: Sequence[str],
    measure: Sequence[str],
    kind: str | None,
    runs: int,
    scale: float,
    seconds: float,
    json: Path | None,
    plot: Path | None,
    yes: bool,
) -> None:
    """Our product beside others: the same work on the same server, in turns.

    Makes an environment for each in .venv-peers at the first call. Measures on $WHERRY_DSN, in
    databases of its own whose names begin with wherry_peers, or on an embedded PostgreSQL.
    """
    if plot is not None:
        # Before an hour of measuring, not after it.
        chart.check(plot / "measure.png")
    commands, absent = _commands(only)
    known = kinds(scale=scale, seconds=seconds)
    rows = [
        (of, name, run)
        for of in measure
        for name, run in known[of].items()
        if kind is None or name in kind.split(",")
    ]
    with _ground(commands, yes=yes) as ground:
        versions = {name: install.version(PEERS[name]) for name in commands}
        sheets = Sheets(versions, ground.postgres.connection)
        turns = [
            (of, name, run, PEERS[peer])
            for _ in range(runs)
            for of, name, run in rows
            for peer in commands
            if _applies(PEERS[peer], of, name)
        ]
        try:
            for of, name, run, peer in turns:
                try:
                    sheets.add(of, name, peer.name, run(ground, peer))
                except PeerFailed as error:
                    absent[f"{of}, {name}: {peer.name}"] = str(error)
        except KeyboardInterrupt:
            # What was measured by then took long, and is worth telling.
            absent["the rest"] = "it was interrupted"
    sheets.show(absent)
    if json is not None:
        sheets.write(json, absent)
    if plot is not None:
        sheets.draw(plot)
    # Whoever else fails is told of; if we do, the benchmark has failed.
    context.exit(int(any(name.endswith(OURS) for name in absent)))


peers.params += [
    option("--only", list(PEERS), "Only these", among=list(PEERS)),
    option("--measure", list(PREDICTIONS), "Only these measures", among=list(PREDICTIONS)),
    click.Option(["--kind"], metavar="LIST", help='Only these rows, such as "tuned x1,bulk".'),
    option("--runs", 3, "Rounds; medians are shown"),
    option("--scale", 1.0, "Times the usual number of tasks"),
    option("--seconds", 60.0, "How long `held` lasts"),
    click.Option(
        ["--json"],
        type=click.Path(dir_okay=False, writable=True, path_type=Path),
        metavar="FILE",
        help="Write all figures of all runs to this file.",
    ),
    click.Option(
        ["--plot"],
        type=click.Path(file_okay=False, writable=True, path_type=Path),
        metavar="FOLDER",
        help="Draw each measure into this folder; needs wherry[bench].",
    ),
    click.Option(["--yes"], is_flag=True, help="Do not ask before the load."),
]


def _applies(peer: Peer, measure: str, kind: str) -> bool:
    if peer.on_redis and (measure == "held" or kind.endswith("tx")):
        return False
    return peer.has_bulk or kind != "bulk"


def _commands(names: Sequence[str]) -> tuple[dict[str, list[str]], dict[str, str]]:
    """The command of each peer that can be had here, and why the others cannot."""
    commands: dict[str, list[str]] = {}
    absent: dict[str, str] = {}
    for name in names:
        try:
            commands[name] = install.ready(PEERS[name])
        except install.NotHere as reason:
            absent[name] = str(reason)
    return commands, absent


@contextlib.contextmanager
def _ground(commands: Mapping[str, list[str]], *, yes: bool) -> Generator[Ground]:
    given = os.environ.get(DSN_VARIABLE, "")
    with contextlib.ExitStack() as stack:
        stack.enter_context(found.interrupted_by_sigterm())
        home = embedded.parse(given) if given else embedded.default_home().with_name("peers")
        if home is not None:
            given = stack.enter_context(embedded.acquire(home, settings=SETTINGS)).dsn
        elif not yes:
            _ask()
        postgres = Postgres(given)
        stack.callback(postgres.leave)
        redis = None
        if any(PEERS[name].on_redis for name in commands):
            redis = Redis()
            stack.callback(redis.leave)
        yield Ground(postgres, redis, commands)


def _ask() -> None:
    what = (
        f"This puts as much load on ${DSN_VARIABLE} as it can, and makes and drops databases there"
        " whose names begin with wherry_peers."
    )
    if not is_terminal():
        raise click.UsageError(f"{what} Nobody is there to be asked: consent with --yes")
    click.confirm(f"{what}\nGo on?", abort=True, err=True)
