"""The demo's own tables, as a program that uses Wherry would have some.

They are dropped and made anew when a demo starts and stay when it has ended, so that everybody can
look at what it left.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, LiteralString

import psycopg

# How everything in the demo connects: its tables are found without naming their schema.
OPTIONS = "-c search_path=wherry_demo_app"

DROP: LiteralString = """
    drop schema if exists wherry_demo cascade;
    drop schema if exists wherry_demo_app cascade
"""
MAKE: LiteralString = """
    create schema wherry_demo_app;

    create table documents (
        id bigint generated always as identity primary key,
        path text not null,
        trouble text not null
    );

    -- Without a unique document: a file that was processed twice is to show as two rows.
    create table results (
        document bigint not null,
        sha256 text not null,
        size_bytes bigint not null,
        compressed_bytes bigint not null,
        lines bigint not null
    );

    -- What the demo did, told by itself, for the report to compare with what became of it.
    create table rolled_back (path text not null);
    create table killed (worker text not null);
"""


class AnotherDemo(Exception):
    """Another demo runs in this database, and would lose its tables."""


def connect(dsn: str) -> psycopg.Connection[Any]:
    """Return a connection on which the demo's tables are found; each statement commits."""
    return psycopg.connect(dsn, autocommit=True, options=OPTIONS)


@contextlib.contextmanager
def fresh(dsn: str) -> Iterator[psycopg.Connection[Any]]:
    """Make the tables anew and give a connection that keeps other demos out. Raises AnotherDemo."""
    with connect(dsn) as conn:
        mine = "select pg_try_advisory_lock(hashtextextended('the demo of wherry', 0))"
        if conn.execute(mine).fetchone() != (True,):
            raise AnotherDemo("another demo is running: wait until it has ended")
        conn.execute("set lock_timeout = '5s'")
        conn.execute(DROP)
        conn.execute(MAKE)
        yield conn
