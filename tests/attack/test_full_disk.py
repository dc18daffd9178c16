"""Disks without space: contexts, conversions and profiles that cannot be written."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

import pytest

from agentrt.bench.common.random_gguf import write_random_gguf
from tests.attack.campaign import Campaign
from tests.attack.server_process import ServerProcess
from tests.attack.test_kills import ANSWER, CONVERT, SHAPE, TYPED_ERROR, start
from tests.attack.wire import Request

_CONTEXTS = 3
"""While there is space."""
_MORE_CONTEXTS = 60
"""While there is none: at most so many, until enough were refused."""
_REFUSALS = 3
_FULL = frozenset({503})
"""The status of a turn that cannot be stored."""
_BALLAST = "ballast"
_QUESTION = "note plan garden roof dentist friday " * 80


class SmallDisk:
    """A disk of 2 MiB in memory; where this user may not mount one, a limit on the size of files.

    A context manager: entering it makes :attr:`folder`, which exists and is empty, small.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._mounted = False

    @property
    def prefix(self) -> tuple[str, ...]:
        """Command that runs the one behind it with the limit; empty on a small disk."""
        return () if self._mounted else ("prlimit", "--fsize=2000")

    def fill(self) -> None:
        """Leave nothing of the disk; a limit on the size of files holds from the start."""
        if self._mounted:
            free = os.statvfs(self.folder)
            # A server may write meanwhile: then there is less space than that, and all of it is taken.
            with suppress(OSError), (self.folder / _BALLAST).open("ab", buffering=0) as ballast:
                ballast.write(bytes(free.f_bavail * free.f_frsize))

    def free(self) -> bool:
        """Free what :meth:`fill` has taken; return whether processes that run can write now."""
        (self.folder / _BALLAST).unlink(missing_ok=True)
        return self._mounted

    def __enter__(self) -> Self:
        """Mount the disk if that is allowed."""
        command = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(self.folder)]
        if shutil.which("mount") is not None:
            self._mounted = subprocess.run(command, check=False, capture_output=True).returncode == 0
        return self

    def __exit__(self, *_: object) -> None:
        if self._mounted:
            subprocess.run(["umount", "--lazy", str(self.folder)], check=False, capture_output=True)


@pytest.fixture
def disk(campaign: Campaign) -> Iterator[SmallDisk]:
    campaign.counts.update(full_disks_tried=1)
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder, SmallDisk(Path(folder)) as disk:
        yield disk


def test_stored_contexts_survive_and_service_goes_on(campaign: Campaign, disk: SmallDisk) -> None:
    """Store contexts until there is no space, free it, and go on with those that were stored."""
    folder = str(disk.folder / "contexts")
    options = ("--context-folder", folder, "--memory-mib", "16")
    with ServerProcess("serve", *options, prefix=disk.prefix) as server:
        stored = [_stored(server, "Hello!", campaign, _FULL) for _ in range(_CONTEXTS)]
        refused = 0
        for _ in range(_MORE_CONTEXTS):
            disk.fill()  # again: where there is no space, computed keys and values are dropped for texts
            stored.append(_stored(server, _QUESTION, campaign, _FULL))
            refused += stored[-1] is None
            if refused == _REFUSALS:
                break
        else:
            campaign.fail("a full disk", f"{refused} contexts were refused")
        campaign.add_faults(server)
        if disk.free():
            stored.append(_stored(server, _QUESTION, campaign))
    with ServerProcess("serve", "--context-folder", folder) as server:
        for context in filter(None, stored):
            request = Request("a full disk", "GET", f"/v1/contexts/{context}")
            answer = server.get(request.path)
            campaign.add(request, answer)
            if len(answer.json().get("messages", ())) != 2:
                campaign.fail("a full disk", f"a turn was lost: {answer.body[:300]!r}")
        _stored(server, _QUESTION, campaign)


def _stored(
    server: ServerProcess, text: str, campaign: Campaign, expected: Collection[int] = ()
) -> str | None:
    """Make a context and store a turn with ``text`` in it; return its id, or None if there was no space."""
    made = server.post("/v1/contexts", {})
    campaign.add(Request("a full disk", "POST", "/v1/contexts"), made, expected)
    if made.status != 200:
        if made.status not in expected:  # the log names what of the disk failed
            campaign.fail("the server's log", "\n".join(server.log().splitlines()[-5:]))
        return None
    context: str = made.json()["id"]
    path = f"/v1/contexts/{context}/chat/completions"
    answer = server.post(path, {"messages": [{"role": "user", "content": text}], "max_tokens": 5})
    campaign.add(Request("a full disk", "POST", path), answer, expected)
    if answer.status not in (200, *expected):
        campaign.fail("a full disk", f"a turn is answered {answer.status} {answer.body[:200]!r}")
    return context if answer.status == 200 else None


def test_a_conversion_ends_in_a_typed_error_and_leaves_nothing(
    campaign: Campaign, disk: SmallDisk, tmp_path: Path
) -> None:
    file = tmp_path / "Random.gguf"
    write_random_gguf(file, SHAPE)
    process = start(CONVERT, file, disk.folder, disk.prefix)
    printed, errors = process.communicate()
    assert process.returncode == TYPED_ERROR, errors
    assert "Free disk space" in printed
    assert not [path for path in disk.folder.rglob("*") if path.is_file() and path.stat().st_size]
    campaign.counts.update(tries=1)


def test_a_model_whose_profile_cannot_be_stored_answers(campaign: Campaign, disk: SmallDisk) -> None:
    disk.fill()
    process = start(ANSWER, "nano", disk.folder, disk.prefix)
    assert process.communicate()[0] == "done\n"
    assert process.returncode == 0
    campaign.counts.update(tries=1)
