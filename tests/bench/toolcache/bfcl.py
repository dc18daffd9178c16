"""A file of BFCL's multi-turn tasks for the tests."""

from __future__ import annotations

import json
from pathlib import Path


def write_bfcl(folder: Path, count: int, *, depth: float | None = None) -> None:
    """Write as many tasks of one call each, with the given ``depth`` or one each."""
    lines = []
    for number in range(count):
        arguments = {"folder": f"folder {number}", "depth": number if depth is None else depth}
        call = {"name": "cd", "arguments": arguments}
        turn = {"messages": [{"role": "user", "content": "Go there."}], "ground_truth": [call]}
        lines.append(json.dumps({"id": f"task_{number}", "turns": [turn]}) + "\n")
    (folder / "bfcl_multi_turn.jsonl").write_text("".join(lines), encoding="utf-8")
