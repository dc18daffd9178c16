"""A file of BFCL's multi-turn tasks for the tests."""

from __future__ import annotations

import json
from pathlib import Path


def write_bfcl(folder: Path, count: int) -> None:
    """Write as many tasks of one call each."""
    lines = []
    for number in range(count):
        call = {"name": "cd", "arguments": {"folder": f"folder {number}", "depth": number}}
        turn = {"messages": [{"role": "user", "content": "Go there."}], "ground_truth": [call]}
        lines.append(json.dumps({"id": f"task_{number}", "turns": [turn]}) + "\n")
    (folder / "bfcl_multi_turn.jsonl").write_text("".join(lines), encoding="utf-8")
