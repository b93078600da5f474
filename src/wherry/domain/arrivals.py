"""Learns how often tasks arrive where somebody waits, and says how to wait for the next one.

To be notified is quick, and costs nothing while tasks come seldom. While they come often it is the
other way round: commits that notify stand in line for the whole cluster, and whoever looks again in
a moment finds many tasks at once. So this asks to be notified until notifications come too often;
then it looks again after short pauses, and asks once more, ever more seldom, when it was quiet for
a while. What is quiet here may be busy elsewhere: others may be taking all the tasks.

Pure: whoever waits tells the time, in seconds of any one clock.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from math import exp

from wherry.domain.lease import Lease

# Between two notifications, on average. In between, who is notified stays so, and who looks goes on
# looking.
_OFTEN_SECONDS = 0.006
_SELDOM_SECONDS = 0.010
# As many enqueues under way at once, on average, stand in line to notify us.
_CROWD = 2.5
# What one long interval, or one task that waited for long, counts for at most.
_LONGEST_INTERVAL_SECONDS = 0.025
_LONGEST_WAIT_SECONDS = 0.1
# A single short interval says nothing: of tasks that come fifty times a second, each by itself,
# every fifth comes less than 5 ms after the one before. Who asks once more has less patience.
_WEIGHT = 1 / 8
_DOUBTFUL_WEIGHT = 1 / 4
_DOUBTFUL_INTERVAL_SECONDS = 0.007
# Who has stopped asks once more when there was nothing for a moment, unless it took many tasks of
# late: then there will be more, and others have just been quicker.
_QUIET_SECONDS = 0.016
_OF_LATE_SECONDS = 0.5
_MANY_A_SECOND = 100.0
_MOST_A_SECOND = 400.0
_FIRST_PAUSE_SECONDS = 0.002
_LONGEST_PAUSE_SECONDS = 0.025
# For who shares a stream: of eight that look, each may wait eight times as long.
_LONGEST_SHARED_PAUSE_SECONDS = 0.1
# The first task that a look finds should have waited for so long, at least and at most: what comes
# sooner would do with fewer looks. A look that finds many is worth a wait. What a task waits for
# its own commit does not count: it is what the one that waited least has waited, which is soon
# believed when it is short, and slowly when it is long.
_COMMIT_WEIGHT = 1 / 8
_WAIT_FOR_FEW_SECONDS = (0.002, 0.004)
_WAIT_FOR_MANY_SECONDS = (0.008, 0.012)
_MANY = 8
# What has waited for so long says that others do not look any more, or cannot carry it all.
_LONG_SECONDS = 0.05
# A look that found tasks, but fewer than these, leaves time for more to come, where so many come.
_FULL = 256
_GATHERED_A_SECOND = 200.0
_FIRST_HOLD_SECONDS = 0.25
_LONGEST_HOLD_SECONDS = 4.0


class Arrivals:
    """What one who waits knows of the tasks that come."""

    def __init__(
        self, now: float, *, jitter: Callable[[], float] = lambda: random.uniform(0.8, 1.0)
    ) -> None:
        self._jitter = jitter
        # Whether an enqueue notifies us, as far as we have asked.
        self.notified = False
        # Moving averages: between two notifications, and from the making of a task to its lease.
        self._interval = _LONGEST_INTERVAL_SECONDS
        self._waited = 0.0
        self._heard_at = self._found_at = now
        # How many tasks were taken here a second, of late; as it was at the last that were found.
        self._taken = 0.0
        # By the last look that found any.
        self._found = 0
        # From the making of a task to its commit.
        self._commit = 0.0
        self._trusts = True
        self._hold = _FIRST_HOLD_SECONDS
        self._hold_until = now
        self._pause = _FIRST_PAUSE_SECONDS

    @property
    def pause(self) -> float:
        """In how many seconds to look again, while we are not notified."""
        return self._pause * self._jitter()

    def gathers(self, now: float) -> float:
        """In how many seconds to look again after a look that took all that there was.

        At once, but while tasks come so often that a moment later one statement takes many.
        """
        if self.notified or self._trusts or self._found >= _FULL:
            return 0.0
        if self._taken_of_late(now) < _GATHERED_A_SECOND:
            return 0.0
        return max(0.0, self._found_at + self.pause - now)

    def looked(self, now: float, leases: Sequence[Lease]) -> None:
        """A look has found these, in the order in which they came if their priority is the same."""
        if not leases:
            if self._pause > _LONGEST_PAUSE_SECONDS:
                self._pause = max(self._pause / 1.5, _LONGEST_PAUSE_SECONDS)
            else:
                self._pause = min(self._pause * 1.5, _LONGEST_PAUSE_SECONDS)
            return
        taken = self._taken_of_late(now) + len(leases) / _OF_LATE_SECONDS
        self._taken, self._found_at = min(taken, _MOST_A_SECOND), now
        self._found = len(leases)
        waited_seconds = _waited(leases[0])
        least_seconds = min(_waited(leases[-1]), _LONG_SECONDS)
        slowly = self._commit + (least_seconds - self._commit) * _COMMIT_WEIGHT
        self._commit = min(least_seconds, slowly)
        if self.notified:
            waited_seconds = min(waited_seconds, _LONGEST_WAIT_SECONDS)
            self._waited = self._averaged(self._waited, waited_seconds)
            return
        # With a pause that long others look at the same stream, however few of it are ours.
        many = len(leases) >= _MANY or self._pause > _LONGEST_PAUSE_SECONDS
        soon, late = _WAIT_FOR_MANY_SECONDS if many else _WAIT_FOR_FEW_SECONDS
        if waited_seconds - self._commit > late:
            self._pause = max(self._pause / 1.5, _FIRST_PAUSE_SECONDS)
            if waited_seconds > _LONG_SECONDS:
                self._pause = min(self._pause, _LONGEST_PAUSE_SECONDS)
        elif waited_seconds - self._commit < soon:
            # Many may be looking here, so that together they come soon enough.
            self._pause = min(self._pause * 1.25, _LONGEST_SHARED_PAUSE_SECONDS)

    def heard(self, now: float) -> None:
        """A notification has come, whoever had asked for it."""
        interval, self._heard_at = now - self._heard_at, now
        if self.notified:
            self._interval = self._averaged(
                self._interval, min(interval, _LONGEST_INTERVAL_SECONDS)
            )
            if self._interval >= _SELDOM_SECONDS and not self._is_often:
                self._trusts, self._hold = True, _FIRST_HOLD_SECONDS
        elif interval < _OFTEN_SECONDS:
            # Somebody else has asked, too early: nobody asks again so soon.
            self._hold_off(now, is_news=now >= self._hold_until)

    def should_be_notified(self, now: float) -> bool:
        """Whether to ask to be notified now, or to let it stand."""
        if self.notified:
            return not self._is_often
        if self._trusts:
            return True
        if now < self._hold_until or now - self._found_at < _QUIET_SECONDS:
            return False
        return self._taken_of_late(now) < _MANY_A_SECOND

    def asked(self, now: float) -> None:
        """From now on an enqueue notifies us."""
        if not self.notified:
            self.notified = True
            self._heard_at = now

    def asks_no_more(self, now: float) -> None:
        """From now on no enqueue notifies us."""
        if not self.notified:
            return
        self.notified = False
        if self._is_often:
            self._interval, self._waited = _DOUBTFUL_INTERVAL_SECONDS, _DOUBTFUL_INTERVAL_SECONDS
            self._pause = _FIRST_PAUSE_SECONDS
            self._trusts = False
            self._hold_off(now, is_news=True)

    def _hold_off(self, now: float, *, is_news: bool) -> None:
        self._hold_until = max(self._hold_until, now + self._hold * self._jitter())
        if is_news:
            self._hold = min(self._hold * 2, _LONGEST_HOLD_SECONDS)

    def _taken_of_late(self, now: float) -> float:
        return self._taken * exp((self._found_at - now) / _OF_LATE_SECONDS)

    @property
    def _is_often(self) -> bool:
        # So many are on their way at a time: how long each takes, by how often one comes. Commits
        # that stand in line to notify come no more often than one commit takes, on a slow disk
        # seldom; but they wait for long.
        return self._interval < _OFTEN_SECONDS or self._waited > _CROWD * self._interval

    def _averaged(self, average: float, seconds: float) -> float:
        weight = _WEIGHT if self._trusts else _DOUBTFUL_WEIGHT
        return average + (seconds - average) * weight


def _waited(lease: Lease) -> float:
    """Seconds from the making of a task to its lease, as far as that can be told.

    By the database's clock. What is made in a long transaction is made early.
    """
    try:
        times = lease.times
    except OverflowError:
        return 0.0
    return (times.leased_at - max(times.created_at, times.run_after)).total_seconds()
