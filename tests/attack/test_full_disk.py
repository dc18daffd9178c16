"""Disks without space: contexts, conversions and profiles that cannot be written."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from agentrt.bench.common.random_gguf import write_random_gguf
from tests.attack.campaign import Campaign
from tests.attack.programs import ANSWER, CONVERT, SHAPE, TYPED_ERROR, start
from tests.attack.server_process import ServerProcess
from tests.attack.small_disk import SmallDisk
from tests.attack.wire import Request

_CONTEXTS = 3
"""While there is space."""
_MORE_CONTEXTS = 60
"""While there is none: at most so many, until enough were refused."""
_REFUSALS = 3
_FULL = frozenset({503})
"""The status of a turn that cannot be stored."""
_QUESTION = "note plan garden roof dentist friday " * 80


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
