"""What a worker promises of outcomes and of its end, told by its own tests, holds on a server too.

They are those of tests/worker, on an App that has only a server. Left out is what needs the
database itself.
"""

from __future__ import annotations

import pytest

import wherry
from tests.worker.conftest import strict_loop  # noqa: F401
from tests.worker.test_outcomes import *  # noqa: F403
from tests.worker.test_stopping import *  # noqa: F403
from wherry.worker import remote as remote_source

# It calls for a maintenance pass, which a server does not do for anybody.
del test_every_way_to_fail_waits_by_the_same_policy  # noqa: F821


@pytest.fixture
def app(remote: wherry.App, monkeypatch: pytest.MonkeyPatch) -> wherry.App:
    """An App that has only a server; a worker of its waits less for the last tasks."""
    monkeypatch.setattr(remote_source, "_LAST_LOOK_SECONDS", 0.3)
    return remote
