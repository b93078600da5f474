"""What a handler's annotations may be: they are for type checkers, and nothing reads them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import wherry
from tests.worker.support import get

# Before CPython 3.14 an annotation is evaluated at once, unless the module says otherwise.
LATER = "" if sys.version_info >= (3, 14) else "from __future__ import annotations\n"
HANDLER = f"{LATER}async def bill(order: Unimported, by: Unimported = None): ...\n"


async def test_an_annotation_need_not_have_a_value(app: wherry.App) -> None:
    module: dict[str, Any] = {"__name__": "shop"}
    exec(compile(HANDLER, "shop.py", "exec", dont_inherit=True), module)

    function: Callable[..., Any] = module["bill"]
    bill = app.task(function)
    by_place, by_name = await bill.aenqueue(1, "her"), await bill.aenqueue(order=2)

    found = [await get(app, enqueued.id) for enqueued in (by_place, by_name)]
    assert [task.payload for task in found] == [{"order": 1, "by": "her"}, {"order": 2}]
