"""Writes the blocking twins of our few awaited modules; `--check` only says which are stale.

Logic is written once, in the awaited form. A twin is the same text without `async` and `await`
and with the names below exchanged. A name that nothing needs any more has to be taken off the
table again, and a twin that would still wait for something is refused. To give a module a twin,
add it to PAIRS; to exchange one more name, add it to NAMES.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from itertools import accumulate
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Source and twin, below src/wherry. Imports of a source become imports of its twin.
PAIRS: dict[str, str] = {
    "app/calls.py": "app/calls_blocking.py",
    "transport/grpc/client.py": "transport/grpc/client_blocking.py",
    "app/operators.py": "app/operators_blocking.py",
    "app/schedules.py": "app/schedules_blocking.py",
    "app/storing.py": "app/storing_blocking.py",
    "transport/pool.py": "transport/pool_blocking.py",
    "transport/session.py": "transport/session_blocking.py",
}

# Whole names, in code, strings and comments alike. The left sides are regular expressions.
NAMES: dict[str, str] = {
    "AsyncConnection": "Connection",
    "AsyncConnectionPool": "ConnectionPool",
    "AsyncReserved": "Reserved",
    "import asyncio": "import threading\nimport time",
    r"asyncio\.sleep": "time.sleep",
    r"asyncio\.Lock": "threading.Lock",
    "arun": "run",
    "acarry": "carry",
    "aopen_channel": "open_channel",
    "aunder_way": "under_way",
    "aenqueue": "enqueue",
    "aenqueue_many": "enqueue_many",
    "aasked_tasks": "asked_tasks",
    "aenqueue_specs": "enqueue_specs",
    "aget_task": "get_task",
    "alist_tasks": "list_tasks",
    "acount_tasks": "count_tasks",
    "alist_queues": "list_queues",
    "aresult": "result",
    "acancel": "cancel",
    "acancel_many": "cancel_many",
    "arequeue": "requeue",
    "arequeue_many": "requeue_many",
    "apurge": "purge",
    "apurge_many": "purge_many",
    "alease": "lease",
    "aheartbeat": "heartbeat",
    "acomplete": "complete",
    "afail": "fail",
    "asnooze": "snooze",
    "arelease": "release",
    "areap": "reap",
    "astore_copy": "store_copy",
    "acopy_task": "copy_task",
    "_acarried": "_carried",
    "_adrawn": "_drawn",
    "_acaught_up": "_caught_up",
    "_astore": "_store",
    "_astore_in_parts": "_store_in_parts",
    "_astore_whole": "_store_whole",
    "_apoll": "_poll",
    "agroup_dead_tasks": "group_dead_tasks",
    "areprioritize": "reprioritize",
    "areprioritize_many": "reprioritize_many",
    "areschedule": "reschedule",
    "areschedule_many": "reschedule_many",
    "awhy": "why",
    "apause_queue": "pause_queue",
    "aresume_queue": "resume_queue",
    "aset_queue_limits": "set_queue_limits",
    "alist_paused_types": "list_paused_types",
    "apause_type": "pause_type",
    "aresume_type": "resume_type",
    "alist_workers": "list_workers",
    "adirect_workers": "direct_workers",
    "astore_run": "store_run",
    "alist_schedules": "list_schedules",
    "aget_schedule": "get_schedule",
    "alist_ticks": "list_ticks",
    "aadd_schedule": "add_schedule",
    "arun_schedule": "run_schedule",
    "apause_schedule": "pause_schedule",
    "aresume_schedule": "resume_schedule",
    "adelete_schedule": "delete_schedule",
}


def twin(text: str, modules: dict[str, str], used: set[str]) -> str:
    """Return the blocking form of *text*, unformatted; names that were met go into *used*."""
    text = _without_keywords(text)
    for name, instead in (NAMES | modules).items():
        text, count = re.subn(rf"(?<!\w){name}(?!\w)", instead, text)
        if count:
            used.add(name)
    waits = (ast.Await, ast.AsyncFor, ast.AsyncWith, ast.AsyncFunctionDef)
    left = [node.lineno for node in ast.walk(ast.parse(text)) if isinstance(node, waits)]
    if left:
        raise ValueError(f"still waits in line {left[0]}: write that line in a plainer way")
    return text


def _without_keywords(text: str) -> str:
    """Drop `async` and `await` in code; in prose only where code is quoted, as in `await f(x)`."""
    starts = [0, *accumulate(map(len, text.splitlines(keepends=True)))]
    kept, at = [], 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        start, end = (starts[row - 1] + column for row, column in (token.start, token.end))
        if token.type == tokenize.NAME and token.string in ("async", "await"):
            kept.append(text[at:start])
            at = end + 1  # the space behind it goes too
        elif token.type in (tokenize.STRING, tokenize.COMMENT):
            kept += text[at:start], re.sub(r"(?<!\w)await (?=[\w.]+\()", "", text[start:end])
            at = end
    return "".join(kept) + text[at:]


def _through_ruff(text: str, path: Path, *arguments: str) -> str:
    command = [str(Path(sys.executable).parent / "ruff"), *arguments, "--stdin-filename", str(path)]
    done = subprocess.run([*command, "-"], input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ValueError(done.stderr.strip())
    return done.stdout


def generate(pairs: dict[str, str], root: Path) -> dict[Path, str]:
    """Return what each twin below *root* has to contain.

    Raises ValueError if a twin would still wait, or a name on the table was never met.
    """
    modules = {_dotted(source): _dotted(target) for source, target in pairs.items()}
    used: set[str] = set()
    contents: dict[Path, str] = {}
    for source, target in pairs.items():
        path = root / target
        header = f"# Generated by tools/unasync.py from {source}; do not edit.\n"
        try:
            text = header + twin((root / source).read_text(), modules, used)
            text = _through_ruff(text, path, "check", "--select", "I,F401", "--fix-only", "--quiet")
            contents[path] = _through_ruff(text, path, "format", "--quiet")
        except (OSError, SyntaxError, ValueError, tokenize.TokenError) as error:
            raise ValueError(f"{source}: {error}") from error
    unused = [name for name in NAMES if name not in used]
    if pairs and unused:
        raise ValueError(f"no module needs these any more, take them off NAMES: {unused}")
    return contents


def _dotted(path: str) -> str:
    return "wherry." + path.removesuffix(".py").replace("/", ".")


def main(arguments: list[str]) -> int:
    """Write the twins, or with --check name the stale ones; return the exit code."""
    if arguments not in ([], ["--check"]):
        print("usage: python -m tools.unasync [--check]", file=sys.stderr)
        return 2
    try:
        contents = generate(PAIRS, ROOT / "src/wherry")
    except ValueError as error:
        print(f"unasync: {error}", file=sys.stderr)
        return 1
    stale = [p for p, text in contents.items() if not p.exists() or p.read_text() != text]
    for path in stale:
        if not arguments:
            path.write_text(contents[path])
        print(f"{'stale' if arguments else 'wrote'}: {path.relative_to(ROOT)}")
    print(f"unasync: {len(contents)} twins, {len(stale)} {'stale' if arguments else 'written'}")
    return 1 if arguments and stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
