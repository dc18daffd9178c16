"""Every application is made without FastAPI's own telemetry."""

from __future__ import annotations

import re

from tests.house.project import PARTS, ROOT, files


def test_no_application_is_made_elsewhere() -> None:
    making = {
        path.relative_to(ROOT).as_posix()
        for folder in PARTS
        for path in files(folder)
        if path.suffix == ".py" and re.search(r"\bFastAPI\(", path.read_text(encoding="utf-8"))
    }
    assert making == {"runtime/serving/http/application.py"}
