"""Disks without space: contexts, conversions and profiles that cannot be written."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from ..common.random_gguf import write_random_gguf
from .kills import SHAPE
from .opening import DONE, TYPED_ERROR, start_answering, start_conversion
from .outcomes import Outcomes
from .server_process import ServerProcess
from .small_disk import SmallDisk
from .wire import Answer, Request, exchange, post

_LEFT_BYTES: Final = 20_000
_TURNS: Final = 8
_FULL: Final = frozenset({503})
"""The status of a turn that cannot be stored."""
_QUESTION: Final = "note plan garden roof dentist friday " * 80


def attack_by_full_disk(outcomes: Outcomes, progress: Callable[[str], None]) -> int:
    """Fill a disk with contexts, a conversion and a profile; return how many ways were tried."""
    attacks = {
        "contexts": _fill_with_contexts,
        "a conversion": _fill_with_a_conversion,
        "a profile": _fill_with_a_profile,
    }
    for name, attack in attacks.items():
        progress(f"a full disk for {name}")
        with TemporaryDirectory(ignore_cleanup_errors=True) as folder, SmallDisk(Path(folder)) as disk:
            attack(f"a full disk for {name}", disk, outcomes)
    return len(attacks)


def _fill_with_contexts(name: str, disk: SmallDisk, outcomes: Outcomes) -> None:
    """Continue a context until it cannot be stored, free space, and go on with what was stored."""
    folder = str(disk.folder / "contexts")
    with ServerProcess(
        "serve", "--context-folder", folder, "--memory-mib", "16", prefix=disk.prefix
    ) as server:
        context = json.loads(_post(server, "/v1/contexts", {}).body)["id"]
        path = f"/v1/contexts/{context}/chat/completions"
        statuses: list[int] = []
        for number in range(_TURNS):
            if number == _TURNS // 2:
                disk.fill(_LEFT_BYTES)
            answer = _post(server, path, _turn(_QUESTION))
            outcomes.add(Request(name, "POST", path), answer, _FULL)
            statuses.append(answer.status)
        if statuses.count(200) == _TURNS:
            outcomes.fail(name, "no turn was refused")
        outcomes.add_faults(server)
        if disk.free():
            answer = _post(server, path, _turn("Hello!"))
            outcomes.add(Request(name, "POST", path), answer)
            statuses.append(answer.status)
    with ServerProcess("serve", "--context-folder", folder) as server:
        answer = exchange(
            server.port, Request(name, "GET", f"/v1/contexts/{context}"), server.tokens["owner"]
        )
        messages = len(json.loads(answer.body).get("messages", ()))
        if messages != 2 * statuses.count(200):
            outcomes.fail(name, f"{statuses.count(200)} turns were stored, and {messages} messages are there")
        answer = _post(server, path, _turn("Thanks."))
        outcomes.add(Request(name, "POST", path), answer)
        if answer.status != 200:
            outcomes.fail(name, f"after a restart: {answer.status} {answer.body[:200]!r}")


def _fill_with_a_conversion(name: str, disk: SmallDisk, outcomes: Outcomes) -> None:
    """Convert a model for which there is no space: a typed error that leaves nothing."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "Random.gguf"
        write_random_gguf(file, SHAPE)
        printed, errors, code = _ended(start_conversion(file, disk.folder, disk.prefix))
    if code != TYPED_ERROR or "Free disk space" not in printed:
        outcomes.fail(name, f"code {code}: {printed} {errors[-300:]}")
    if left := [str(path) for path in disk.folder.rglob("*") if path.is_file() and path.stat().st_size]:
        outcomes.fail(name, f"{left} are left")
    outcomes.tries += 1


def _fill_with_a_profile(name: str, disk: SmallDisk, outcomes: Outcomes) -> None:
    """Open a model whose profile cannot be stored: it answers all the same."""
    disk.fill(0)
    printed, errors, code = _ended(start_answering("nano", disk.folder, disk.prefix))
    if (printed, code) != (DONE, 0):
        outcomes.fail(name, f"code {code}: {printed} {errors[-300:]}")
    outcomes.tries += 1


def _ended(process: subprocess.Popen[str]) -> tuple[str, str, int]:
    printed, errors = process.communicate()
    return printed, errors, process.returncode


def _turn(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}], "max_tokens": 5}


def _post(server: ServerProcess, path: str, body: object) -> Answer:
    return exchange(server.port, post("", path, body), server.tokens["owner"])
