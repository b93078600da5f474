"""Finds out who calls: judges the tokens that callers show, and bounds what each may hold open.

A caller who is refused is never told why: that an id exists, was revoked or has expired is nobody's
business. What was found is kept for five seconds, never longer than the token lasts: so a revoked
token is refused everywhere after five seconds at most, and a database that is away for less is not
noticed. Look-ups that come meanwhile share one query, and queries keep a distance: a flood of
made-up tokens costs the database no more than fifty small queries a second.

Nothing here keeps, logs or raises a secret; what is kept is the hash.
"""

from __future__ import annotations

import asyncio
import hmac
from collections import Counter, OrderedDict
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Final, Protocol, TypeVar

import psycopg

from wherry.commands.base import Command
from wherry.commands.tokens import FindTokens, NoteTokenUse
from wherry.domain.token import Right, Token, TokenFound, read_token
from wherry.errors import LimitReached, Unauthenticated, Unavailable, WherryError
from wherry.server.caller import ANYBODY, Caller
from wherry.telemetry.loggers import logger

R = TypeVar("R")
log = logger("wherry.server.auth")

REFUSAL: Final = (
    "a token is needed for this, as in `Authorization: Bearer wherry_…`, and a valid one"
)
KEPT_SECONDS: Final = 5.0
# Who calls all the time is looked up again before they would have to wait for it.
RENEWED_SECONDS: Final = 4.0
MOST_KEPT: Final = 1_000
# Refusals are kept apart, so that a flood of them pushes out nobody who was let in.
MOST_REFUSED: Final = 10_000
# Ids that wait for the next query, and go into it together.
MOST_ASKED: Final = 1_000
QUERY_EVERY_SECONDS: Final = 0.02
PATIENCE_SECONDS: Final = 5.0
MOST_POLLS: Final = 1_000
_SCHEME: Final = "bearer "
# What an unknown id's secret is compared with, so that it takes as long as that of a known one.
_NO_HASH: Final = bytes(32)


class Carrier(Protocol):
    """What an Authenticator needs of an App."""

    async def acarry(self, command: Command[R], /, *, call: str = "call") -> R:
        """Answer a command."""
        ...


@dataclass(slots=True)
class _Known:
    """A token that is live, and until when (on our clock) it may be believed to be so."""

    caller: Caller
    hash: bytes = field(repr=False)
    until: float
    renew_at: float
    note_use: bool


@dataclass(slots=True)
class _Query:
    """A query under way, or the next one: who waits for which id."""

    waiting: dict[str, asyncio.Future[_Known | None]] = field(default_factory=dict)
    sent_at: float = 0.0


class Authenticator:
    """Judges tokens for one server, in one event loop. Without *required* everybody may do all."""

    def __init__(
        self, app: Carrier, *, required: bool = True, clock: Callable[[], float] = monotonic
    ) -> None:
        self._app = app
        self._required = required
        self._clock = clock
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._refused: OrderedDict[str, float] = OrderedDict()
        self._next = _Query()
        self._sent: _Query | None = None
        self._used: set[str] = set()
        self._looking: asyncio.Task[None] | None = None

    async def caller_of(self, authorization: str | None, *, peer: str) -> Caller:
        """Return who shows *authorization*, the header's value as it came; *peer* is their host.

        Raises Unauthenticated, with the same text whatever is wrong; Unavailable if the database
        cannot be asked in time, and LimitReached if too many others are being looked up.
        """
        if not self._required:
            return replace(ANYBODY, peer=peer)
        token = _read(authorization)
        if token is None:
            log.debug("no token, or none of ours, from %s", peer)
            raise Unauthenticated(REFUSAL)
        known = await self._find(token.id)
        expected = _NO_HASH if known is None else known.hash
        if not hmac.compare_digest(token.hash, expected) or known is None:
            log.debug(
                "token %s from %s: %s", token.id, peer, "wrong secret" if known else "not live"
            )
            raise Unauthenticated(REFUSAL)
        if known.note_use:
            known.note_use = False
            self._note_use(token.id)
        return replace(known.caller, peer=peer)

    async def confirm(self, caller: Caller) -> None:
        """Raise Unauthenticated if *caller* has lost their token since they were let in.

        For whoever has been held for long, as in a long poll, before they are given something.
        """
        if caller.token_id is not None and await self._find(caller.token_id) is None:
            log.debug("token %s from %s: not live any more", caller.token_id, caller.peer)
            raise Unauthenticated(REFUSAL)

    async def aclose(self) -> None:
        """Stop looking; who still waits is told that the database is out of reach."""
        looking, self._looking = self._looking, None
        if looking is not None:
            looking.cancel()
            await asyncio.wait([looking])
        _fail(self._next.waiting.values(), _stopping())
        self._next = _Query()

    async def _find(self, id: str) -> _Known | None:
        """Return the live token with this id, from what is kept, or from the database."""
        now = self._clock()
        known = self._known.get(id)
        if known is not None and now < known.until:
            self._known.move_to_end(id)
            if now >= known.renew_at and len(self._next.waiting) < MOST_ASKED:
                known.renew_at = known.until
                self._asked(id, now)
            return known
        if now < self._refused.get(id, 0.0):
            return None
        future = self._asked(id, now)
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                # The others wait for the same answer: nobody who leaves may take it with them.
                return await asyncio.shield(future)
        except TimeoutError:
            raise Unavailable("the database did not say in time whose token it is") from None

    def _asked(self, id: str, now: float) -> asyncio.Future[_Known | None]:
        """Return the future of a look-up that began, or will begin, late enough to be believed."""
        sent = self._sent
        if sent is not None and id in sent.waiting and now < sent.sent_at + KEPT_SECONDS:
            return sent.waiting[id]
        future = self._next.waiting.get(id)
        if future is None:
            if len(self._next.waiting) >= MOST_ASKED:
                raise LimitReached("too many tokens are being looked up", retry_seconds=1.0)
            future = asyncio.get_running_loop().create_future()
            self._next.waiting[id] = future
            self._look()
        return future

    def _note_use(self, id: str) -> None:
        if len(self._used) < MOST_ASKED:
            self._used.add(id)
            self._look()

    def _look(self) -> None:
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look_up(), name="tokens")

    async def _look_up(self) -> None:
        """Send one query after the other for as long as somebody waits."""
        while self._next.waiting or self._used:
            if self._next.waiting:
                await self._query()
            used, self._used = tuple(sorted(self._used)), set()
            if used:
                await self._note(used)
            # Who was told just now may have used a token for the first time. And the distance.
            await asyncio.sleep(QUERY_EVERY_SECONDS)

    async def _query(self) -> None:
        query, self._next = self._next, _Query()
        query.sent_at = self._clock()
        self._sent = query
        try:
            found = await self._app.acarry(FindTokens(tuple(query.waiting)), call="find_tokens")
            live = {each.id: each for each in found if each.is_live}
            for id, future in query.waiting.items():
                known = self._keep(id, live.get(id), sent_at=query.sent_at)
                if not future.done():
                    future.set_result(known)
        except asyncio.CancelledError:
            _fail(query.waiting.values(), _stopping())
            raise
        except Exception as error:  # noqa: BLE001 - whoever waits for the answer raises it
            _fail(query.waiting.values(), error)
        finally:
            self._sent = None

    def _keep(self, id: str, found: TokenFound | None, *, sent_at: float) -> _Known | None:
        """Keep what the database said, as of the moment at which it was asked."""
        until = sent_at + KEPT_SECONDS
        renew_at = sent_at + RENEWED_SECONDS
        if found is None:
            self._known.pop(id, None)
            _put(self._refused, id, until, most=MOST_REFUSED)
            return None
        if found.remaining_seconds is not None:
            until = min(until, sent_at + found.remaining_seconds)
        rights = frozenset(Right(right) for right in found.rights)
        caller = Caller(found.name, rights, found.queues, token_id=id)
        known = _Known(caller, found.hash, until, renew_at, found.note_use)
        self._refused.pop(id, None)
        _put(self._known, id, known, most=MOST_KEPT)
        return known

    async def _note(self, ids: tuple[str, ...]) -> None:
        try:
            await self._app.acarry(NoteTokenUse(ids), call="note_token_use")
        except (WherryError, psycopg.Error) as error:
            # It says when a token was last used, to the minute; nobody is refused for it.
            log.debug("the use of %d tokens was not noted: %s", len(ids), error)


class Polls:
    """Counts the long polls that each caller holds open, *most* at a time."""

    def __init__(self, most: int = MOST_POLLS) -> None:
        self._most = most
        self._open: Counter[str] = Counter()

    @property
    def open(self) -> int:
        """How many polls of all callers are open."""
        return self._open.total()

    @contextmanager
    def taken(self, caller: Caller) -> Generator[None, None, None]:
        """Hold one poll of *caller* open. Raises LimitReached if there are too many already."""
        # Without tokens everybody is the same caller; then each host is counted.
        holder = caller.token_id or f"host {caller.peer}"
        if self._open[holder] >= self._most:
            raise LimitReached(
                f"{self._most:,} polls of yours are open, which is the limit: lease more tasks in"
                " each, or poll less often",
                retry_seconds=1.0,
            )
        self._open[holder] += 1
        try:
            yield
        finally:
            self._open[holder] -= 1
            if not self._open[holder]:
                del self._open[holder]


def _read(authorization: str | None) -> Token | None:
    if authorization is None or authorization[: len(_SCHEME)].lower() != _SCHEME:
        return None
    return read_token(authorization[len(_SCHEME) :])


T = TypeVar("T")


def _put(kept: OrderedDict[str, T], id: str, value: T, *, most: int) -> None:
    kept[id] = value
    kept.move_to_end(id)
    while len(kept) > most:
        kept.popitem(last=False)


def _stopping() -> Unavailable:
    return Unavailable("the server is stopping")


def _fail(waiting: Iterable[asyncio.Future[_Known | None]], error: Exception) -> None:
    for future in waiting:
        if not future.done():
            future.set_exception(error)
            # Nobody may be left to take it; that is no mistake of anybody's.
            future.exception()
