"""The two ways to the tasks: the database, and a server of ours in front of it (the far way).

A worker may have only the far one for its tasks; what its handlers write themselves goes to the
database all the same.
"""

from __future__ import annotations

import copy
import os
from contextlib import suppress

import wherry
from wherry.domain.lease import LeaseRef
from wherry.wire.lease_token import read_lease_token, write_lease_token

DATABASE_VARIABLE = "NEMESIS_DATABASE"
ADDRESS_VARIABLE = "NEMESIS_ADDRESS"
PORT_VARIABLE = "NEMESIS_PORT"
# The one worker that has no database for its tasks.
FAR_WORKER = "worker-4"


def database() -> str:
    """Return the DSN of what handlers and clients write themselves."""
    return os.environ[DATABASE_VARIABLE]


def fence(lease: LeaseRef) -> tuple[int, int, str]:
    """Return what tells this lease from every other one, as the database has it."""
    return lease.id, lease.token, _near(lease).lease_id


def as_known_to(way: wherry.App, lease: wherry.Lease) -> wherry.Lease:
    """Return *lease* as if it had come by that way: a server hands out tokens of its own."""
    near = _near(lease)
    known = copy.copy(lease)
    known.lease_id = write_lease_token(near) if way.through_server else near.lease_id
    return known


def _near(lease: LeaseRef) -> LeaseRef:
    near = lease
    with suppress(wherry.InvalidOption):
        near = read_lease_token(lease.lease_id)
        near = LeaseRef(lease.deadline, near.id, lease.queue, near.token, near.lease_id)
    return near
