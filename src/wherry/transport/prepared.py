"""Runs statements that take nothing but text on our own connections, without psycopg's cursors.

For a small statement the client would spend more on a cursor than on everything else together.
Each statement is prepared at its first use and kept as long as the connection: there are few. Only
for connections that nobody else uses: a caller's may be in a pipeline, or forbid to prepare.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from hashlib import sha256
from typing import Any
from weakref import ref

import psycopg
from psycopg import errors, generators
from psycopg.adapt import Transformer
from psycopg.pq import ConnStatus, ExecStatus, PipelineStatus, TransactionStatus
from psycopg.pq.abc import PGresult

from wherry.commands.base import Rows


class Prepared:
    """The statements that one connection has prepared."""

    def __init__(self, connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
        self._pgconn = connection.pgconn
        # Of the session, which nobody changes. ASCII is how SQL_ASCII is called, which looks at
        # nothing: psycopg sends UTF-8 there, too.
        encoding = connection.info.encoding
        self._encoding = "utf-8" if encoding == "ascii" else encoding
        # Not held: it holds us, and would be freed by the garbage collector only.
        self._connection = ref(connection)
        self._names: dict[bytes, bytes] = {}
        self._tried = 0
        self._doubted = False

    def rows(
        self, text: bytes, values: Sequence[str | None], *, as_text: bool = True
    ) -> Generator[Any, Any, Rows]:
        """Exchange one statement for its rows; the connection's `wait` drives it.

        They are of text and nulls, or else of what psycopg makes of each column's type.
        """
        encoding = self._encoding
        sent = [None if value is None else value.encode(encoding) for value in values]
        try:
            result = yield from self._exchange(text, sent)
        except errors.InvalidSqlStatementName:
            # Somebody in between has had the session forget them, or has given us another one.
            # Nothing happened, but in a transaction nothing more will.
            self._names.clear()
            if self._pgconn.transaction_status != TransactionStatus.IDLE:
                raise
            result = yield from self._exchange(text, sent)
        if not as_text:
            loaded = Transformer(self._connection())
            loaded.set_pgresult(result)
            return loaded.load_rows(0, result.ntuples, tuple)
        columns = range(result.nfields)
        return [
            tuple(self._read(result.get_value(row, column)) for column in columns)
            for row in range(result.ntuples)
        ]

    def doubt(self) -> None:
        """Look, before the next statement, which of them there are still.

        After a transaction that was rolled back: then psycopg has the session forget all that is
        prepared, if it has prepared anything itself.
        """
        self._doubted = True

    def ahead(self, text: bytes, values: Sequence[str | None]) -> Generator[Any, Any, None]:
        """Send one statement without waiting for its answer; `settled` has to follow.

        Nothing else may be asked of the connection meanwhile.
        """
        if text not in self._names:
            # To be prepared it needs an answer, which nobody gives before the pipeline has ended.
            yield from self.settled()
        name = yield from self._name(text)
        if self._pgconn.pipeline_status == PipelineStatus.OFF:
            self._pgconn.enter_pipeline_mode()
        encoding = self._encoding
        sent = [None if value is None else value.encode(encoding) for value in values]
        self._pgconn.send_query_prepared(name, sent)
        yield from generators.send(self._pgconn)

    def settled(self) -> Generator[Any, Any, None]:
        """Wait for the answers to all that was sent ahead, if anything was.

        Raises what the first of them failed with: the server has done none of those after it.
        """
        pgconn = self._pgconn
        if pgconn.pipeline_status == PipelineStatus.OFF:
            return
        failed: PGresult | None = None
        try:
            pgconn.pipeline_sync()
            yield from generators.send(pgconn)
            while True:
                result = yield from generators.fetch(pgconn)
                if result is None:
                    # The end of one answer, unless there is nobody any more who could give others.
                    if pgconn.status == ConnStatus.BAD:
                        raise psycopg.OperationalError("the connection was lost")
                elif result.status == ExecStatus.PIPELINE_SYNC:
                    break
                elif result.status == ExecStatus.FATAL_ERROR and failed is None:
                    failed = result
            pgconn.exit_pipeline_mode()
        except BaseException:
            # Interrupted: whose answers come next could not be told.
            pgconn.finish()
            raise
        if failed is not None:
            error = errors.error_from_result(failed, encoding=self._encoding)
            if isinstance(error, errors.InvalidSqlStatementName):
                self._names.clear()
            raise error

    def _exchange(
        self, text: bytes, values: Sequence[bytes | None]
    ) -> Generator[Any, Any, PGresult]:
        name = yield from self._name(text)
        self._pgconn.send_query_prepared(name, values)
        return self._checked((yield from generators.execute(self._pgconn)))

    def _name(self, text: bytes) -> Generator[Any, Any, bytes]:
        """Prepare a statement, if it is not; return what it is called."""
        if self._doubted:
            self._pgconn.send_query(b"select name from pg_catalog.pg_prepared_statements")
            found = self._checked((yield from generators.execute(self._pgconn)))
            there = {found.get_value(row, 0) for row in range(found.ntuples)}
            self._names = {text: name for text, name in self._names.items() if name in there}
            self._doubted = False
        name = self._names.get(text)
        if name is None:
            # A name of its own for each try: one that was interrupted may have come through. And
            # for each text: where sessions are shared, another's must never run in its place.
            self._tried += 1
            name = b"wherry_%s_%d" % (sha256(text).hexdigest()[:16].encode(), self._tried)
            self._pgconn.send_prepare(name, text)
            try:
                self._checked((yield from generators.execute(self._pgconn)))
            except errors.DuplicatePreparedStatement:
                # Another client of a pooler has prepared it in this session: a name is of one text.
                # In a transaction nothing more will happen, and the next one finds it known.
                self._names[text] = name
                if self._pgconn.transaction_status != TransactionStatus.IDLE:
                    raise
            self._names[text] = name
        return name

    def _checked(self, results: list[PGresult]) -> PGresult:
        # An error at the commit, or the session's end, comes after the statement's own result.
        last = results[-1]
        if last.status == ExecStatus.FATAL_ERROR:
            raise errors.error_from_result(last, encoding=self._encoding)
        return last

    def _read(self, value: bytes | None) -> str | None:
        return None if value is None else value.decode(self._encoding)
