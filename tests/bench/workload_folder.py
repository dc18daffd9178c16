"""Folders of recorded conversations for the tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.house.project import ROOT

PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
FUNCTION = {"name": "get_weather", "description": "Get the weather in a city.", "parameters": PARAMETERS}
WEATHER = {"type": "function", "function": FUNCTION}

WORKLOADS = ROOT.parent / "shared" / "workloads"


def has_workloads() -> bool:
    return (WORKLOADS / "apibank_traces.jsonl").is_file()


def write_apibank(folder: Path, records: list[dict[str, Any]]) -> None:
    lines = [json.dumps(record) + "\n" for record in records]
    (folder / "apibank_traces.jsonl").write_text("".join(lines), encoding="utf-8")
