"""What an App says of a database that it cannot reach."""

from __future__ import annotations

import pytest

import wherry


def test_a_database_out_of_reach_is_told_with_the_reason(tmp_path: object) -> None:
    app = wherry.App(f"host={tmp_path} dbname=nowhere", pool_timeout=0.2)

    with pytest.raises(wherry.Unavailable, match=r"in 0\.2 s: .*No such file"):
        app.get_task(1)

    app.close()


async def test_the_awaited_form_tells_it_too(tmp_path: object) -> None:
    async with wherry.App(f"host={tmp_path} dbname=nowhere", pool_timeout=0.2) as app:
        with pytest.raises(wherry.Unavailable, match="No such file"):
            await app.aget_task(1)
