"""Folders of recorded conversations for the tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.house.project import ROOT

WORKLOADS = ROOT.parent / "shared" / "workloads"


def has_workloads() -> bool:
    return (WORKLOADS / "apibank_traces.jsonl").is_file()


def write_apibank(folder: Path, records: list[dict[str, Any]]) -> None:
    lines = [json.dumps(record) + "\n" for record in records]
    (folder / "apibank_traces.jsonl").write_text("".join(lines), encoding="utf-8")
