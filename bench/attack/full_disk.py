"""Disks without space: contexts, conversions and profiles that cannot be written."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from ..common.random_gguf import write_random_gguf
from .kills import SHAPE
from .opening import DONE, TYPED_ERROR, start_answering, start_conversion
from .outcomes import Outcomes
from .server_process import ServerProcess
from .wire import Answer, Request, exchange, post

_SMALL_MIB: Final = 2
_BALLAST: Final = "ballast"
_LEFT_BYTES: Final = 20_000
_TURNS: Final = 8
_FULL: Final = frozenset({503})
"""The status of a turn that cannot be stored."""
_QUESTION: Final = "note plan garden roof dentist friday " * 80


def attack_by_full_disk(outcomes: Outcomes, progress: Callable[[str], None]) -> int:
    """Fill a disk in each way; return how many ways were tried: none where this user may not mount a disk."""
    with TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "disk").mkdir()
        with _small_disk(folder / "disk") as disk:
            if disk is None:
                return 0
            progress("a full disk for contexts")
            _fill_with_contexts(disk, outcomes)
            progress("a full disk for conversions and profiles")
            _fill_with_models(disk, folder, outcomes)
    return 3


@contextmanager
def _small_disk(folder: Path) -> Iterator[Path | None]:
    """Mount a small disk in memory; None where this user may not, or the system has none."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={_SMALL_MIB}m", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(command, check=False, capture_output=True).returncode:
        yield None
        return
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=False, capture_output=True)


def _fill(disk: Path, left_bytes: int) -> None:
    """Write a file that leaves ``left_bytes`` of the disk."""
    free = os.statvfs(disk)
    size = free.f_bavail * free.f_frsize - left_bytes
    (disk / _BALLAST).write_bytes(bytes(max(0, size)))


def _fill_with_contexts(disk: Path, outcomes: Outcomes) -> None:
    """Continue a context until it cannot be stored, free space, and go on with what was stored."""
    name, folder = "a full disk for contexts", disk / "contexts"
    stored = 0
    with ServerProcess("serve", "--context-folder", str(folder), "--memory-mib", "16") as server:
        context = json.loads(_post(server, "/v1/contexts", {}).body)["id"]
        path = f"/v1/contexts/{context}/chat/completions"
        statuses = []
        for number in range(_TURNS):
            if number == _TURNS // 2:
                _fill(disk, _LEFT_BYTES)
            answer = _post(server, path, _turn(_QUESTION))
            outcomes.add(Request(name, "POST", path), answer, _FULL)
            statuses.append(answer.status)
        stored = statuses.count(200)
        if stored == _TURNS:
            outcomes.fail(name, "no turn was refused")
        outcomes.add_faults(server)
        (disk / _BALLAST).unlink()
        outcomes.add(Request(name, "POST", "after space was freed"), _post(server, path, _turn("Hello!")))
        stored += 1
    with ServerProcess("serve", "--context-folder", str(folder)) as server:
        answer = exchange(
            server.port, Request(name, "GET", f"/v1/contexts/{context}"), server.tokens["owner"]
        )
        messages = len(json.loads(answer.body).get("messages", ()))
        if messages != 2 * stored:
            outcomes.fail(name, f"{stored} turns were stored, and {messages} messages are there")
        answer = _post(server, path, _turn("Thanks."))
        outcomes.add(Request(name, "POST", "after a restart"), answer)
    shutil.rmtree(folder)


def _fill_with_models(disk: Path, folder: Path, outcomes: Outcomes) -> None:
    """Open models whose conversion, and whose profile, the disk has no space for."""
    file = folder / "Random.gguf"
    write_random_gguf(file, SHAPE)
    printed, errors, code = _ended(start_conversion(file, disk))
    if code != TYPED_ERROR or "Free disk space" not in printed:
        outcomes.fail("a full disk for a conversion", f"code {code}: {printed} {errors[-300:]}")
    if left := [str(path) for path in disk.rglob("*") if path.is_file() and path.stat().st_size]:
        outcomes.fail("a full disk for a conversion", f"{left} are left")
    _fill(disk, 0)
    printed, errors, code = _ended(start_answering("nano", disk))
    if (printed, code) != (DONE, 0):
        outcomes.fail("a full disk for a profile", f"code {code}: {printed} {errors[-300:]}")
    outcomes.tries += 2


def _ended(process: subprocess.Popen[str]) -> tuple[str, str, int]:
    printed, errors = process.communicate()
    return printed, errors, process.returncode


def _turn(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}], "max_tokens": 5}


def _post(server: ServerProcess, path: str, body: object) -> Answer:
    return exchange(server.port, post("", path, body), server.tokens["owner"])
