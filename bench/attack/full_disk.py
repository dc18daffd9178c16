"""Disks without space: contexts, conversions and profiles that cannot be written."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Collection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from ..common.random_gguf import write_random_gguf
from .kills import SHAPE
from .opening import DONE, TYPED_ERROR, start_answering, start_conversion
from .outcomes import Outcomes
from .server_process import ServerProcess
from .small_disk import SmallDisk
from .wire import Answer, Request, exchange, post

_CONTEXTS: Final = 3
"""While there is space."""
_MORE_CONTEXTS: Final = 60
"""While there is none: at most so many, until enough were refused."""
_REFUSALS: Final = 3
_FULL: Final = frozenset({503})
"""The status of a turn that cannot be stored."""
_LOG_LINES: Final = 5
"""Of the server's log that are told with an error: it names what of the disk failed."""
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
    """Store contexts until there is no space, free it, and go on with those that were stored."""
    folder = str(disk.folder / "contexts")
    options = ("--context-folder", folder, "--memory-mib", "16")
    with ServerProcess("serve", *options, prefix=disk.prefix) as server:
        stored = [_stored(server, name, "Hello!", outcomes, _FULL) for _ in range(_CONTEXTS)]
        refused = 0
        for _ in range(_MORE_CONTEXTS):
            disk.fill()  # again: where there is no space, computed keys and values are dropped for texts
            stored.append(_stored(server, name, _QUESTION, outcomes, _FULL))
            refused += stored[-1] is None
            if refused == _REFUSALS:
                break
        else:
            outcomes.fail(name, f"{refused} contexts were refused")
        outcomes.add_faults(server)
        if disk.free():
            stored.append(_stored(server, name, _QUESTION, outcomes))
    with ServerProcess("serve", "--context-folder", folder) as server:
        for context in filter(None, stored):
            path = f"/v1/contexts/{context}"
            request = Request(name, "GET", path)
            answer = exchange(server.port, request, server.tokens["owner"])
            outcomes.add(request, answer)
            if len(json.loads(answer.body).get("messages", ())) != 2:
                outcomes.fail(name, f"a turn was lost: {answer.body[:300]!r}")
        _stored(server, name, _QUESTION, outcomes)


def _stored(
    server: ServerProcess, name: str, text: str, outcomes: Outcomes, expected: Collection[int] = ()
) -> str | None:
    """Make a context and store a turn with ``text`` in it; return its id, or None if there was no space."""
    made = _post(server, "/v1/contexts", {})
    outcomes.add(Request(name, "POST", "/v1/contexts"), made, expected)
    if made.status != 200:
        if made.status not in expected:
            outcomes.note("the server's log", "\n".join(server.log().splitlines()[-_LOG_LINES:]))
        return None
    context: str = json.loads(made.body)["id"]
    path = f"/v1/contexts/{context}/chat/completions"
    body = {"messages": [{"role": "user", "content": text}], "max_tokens": 5}
    answer = _post(server, path, body)
    outcomes.add(Request(name, "POST", path), answer, expected)
    if answer.status not in (200, *expected):
        outcomes.fail(name, f"a turn is answered {answer.status} {answer.body[:200]!r}")
    return context if answer.status == 200 else None


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
    disk.fill()
    printed, errors, code = _ended(start_answering("nano", disk.folder, disk.prefix))
    if (printed, code) != (DONE, 0):
        outcomes.fail(name, f"code {code}: {printed} {errors[-300:]}")
    outcomes.tries += 1


def _ended(process: subprocess.Popen[str]) -> tuple[str, str, int]:
    printed, errors = process.communicate()
    return printed, errors, process.returncode


def _post(server: ServerProcess, path: str, body: object) -> Answer:
    return exchange(server.port, post("", path, body), server.tokens["owner"])
