"""What ``agentrt top`` says of KV memory adds up to what is held."""

from __future__ import annotations

import re
from typing import Any

from agentrt.cli.top.memory import held_for
from agentrt.cli.top.view import _expected

MIB = 2**20


def held(purpose: str, app: str | None, context: str | None, mib: int) -> dict[str, Any]:
    return {"held_for": purpose, "app": app, "context": context, "bytes": mib * MIB}


def test_rows_say_what_memory_is_held_for() -> None:
    rows = [
        held("requests", "notes", "ctx_1", 5),
        held("requests", "notes", None, 4),
        held("next turn", "", "", 3),
        held("disk", None, None, 2),
        held("other", None, None, 1),
    ]
    assert held_for(rows).split("; ") == [
        "notes ctx_1 5.0 MiB",
        "notes several 4.0 MiB",
        "- (next turn) 3.0 MiB",
        "(disk) 2.0 MiB",
        "(other) 1.0 MiB",
    ]


def test_rows_that_are_not_listed_are_summed() -> None:
    shown = held_for([held("requests", "a", f"ctx_{size}", size) for size in range(20, 0, -1)])
    assert sum(float(size) for size in re.findall(r"([\d.]+) MiB", shown)) == sum(range(1, 21))
    assert "15 others" in shown
    assert held_for([]) == ""


def test_when_a_request_is_served_may_not_be_known() -> None:
    row = {"first_token_s": None, "not_known": "reactive requests go first"}
    assert _expected(row) == "reactive requests go first"
