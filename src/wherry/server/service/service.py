"""The service: every verb of the wire, transport-neutral.

The first argument of each is who asks. All raise what `server/problems.py` knows how to tell, and
check as the library does.
"""

from __future__ import annotations

from wherry.server.service.auditing import Auditing
from wherry.server.service.copying import Copying
from wherry.server.service.declaring import Declaring
from wherry.server.service.enqueuing import Enqueuing
from wherry.server.service.leasing import Leasing
from wherry.server.service.looking import Looking
from wherry.server.service.pausing import Pausing
from wherry.server.service.reading import Reading
from wherry.server.service.replanning import Replanning
from wherry.server.service.reporting import Reporting
from wherry.server.service.scheduling import Scheduling
from wherry.server.service.watching import Watching


class Service(
    Enqueuing,
    Leasing,
    Reporting,
    Reading,
    Looking,
    Watching,
    Pausing,
    Replanning,
    Scheduling,
    Declaring,
    Auditing,
    Copying,
):
    """What both doors call."""
