"""Mixed load for a long time: memory, descriptors, threads and KV blocks of the server."""

from __future__ import annotations

import random
import statistics
import threading
import time
from typing import Any

import pytest

from agentrt.bench.common.estimates import bootstrap
from tests.attack.campaign import Campaign
from tests.attack.server_process import ServerProcess
from tests.attack.wire import CHAT, connect, exchange, post, send

_SAMPLES = 480
_WORDS = ("mail", "note", "plan", "garden", "roof", "dentist", "friday", "invoice", "oslo", "weather")
_COLUMNS = ("s", "resident MB", "descriptors", "threads", "KV blocks in use")

Sample = tuple[float, float, int, int, int]


def test_mixed_load_leaves_no_descriptor_and_no_block(campaign: Campaign) -> None:
    seconds = campaign.size(1200.0, 5.0)
    samples: list[Sample] = []
    with ServerProcess("serve", "--memory-mib", "16") as server:
        server.get("/health")
        before = server.resources()
        ends = threading.Event()
        clients = [_Client(server, app, ends, campaign) for app in ("attacker", "other", "attacker")]
        for client in clients:
            client.start()
        begun = time.monotonic()
        try:
            while (passed := time.monotonic() - begun) < seconds or len(samples) < 3:
                rss_mb, descriptors, threads = server.resources()
                blocks = server.used_blocks()
                samples.append((round(passed, 1), round(rss_mb, 1), descriptors, threads, blocks))
                if len(samples) % 20 == 1:
                    print(f"soak {passed:.0f} of {seconds:.0f} s: {rss_mb:.0f} MB")
                ends.wait(seconds / _SAMPLES)
        finally:
            ends.set()
            for client in clients:
                client.join()
        campaign.add_leaks(server, before, "soak")
        campaign.add_faults(server)
    campaign.add_table("soak", _COLUMNS, samples)
    if campaign.full:  # seconds say nothing about hours
        campaign.estimates["rss_growth_mb_per_hour"] = bootstrap(
            samples, lambda drawn: growth_per_hour(sorted(drawn))
        )


def growth_per_hour(samples: list[Sample]) -> float:
    """Return MB per hour by which the resident memory grows after the first third (least squares)."""
    later = [sample for sample in samples if sample[0] >= samples[-1][0] / 3]
    slope, _ = statistics.linear_regression([each[0] for each in later], [each[1] for each in later])
    return 3600 * slope


def test_growth_after_the_warm_up_counts() -> None:
    def grown(megabytes: float, number: int) -> Sample:
        return 10.0 * number, 200 + megabytes, 20, 10, 0

    level = [grown(min(number, 30), number) for number in range(100)]
    assert growth_per_hour(level) == pytest.approx(0)
    leaking = [grown(min(number, 30) + number / 36, number) for number in range(100)]
    assert growth_per_hour(leaking) == pytest.approx(10)


class _Client(threading.Thread):
    """A client that sends random requests until ``ends`` is set."""

    def __init__(self, server: ServerProcess, app: str, ends: threading.Event, campaign: Campaign) -> None:
        super().__init__()
        self._port, self._token = server.port, server.tokens[app]
        self._ends, self._campaign = ends, campaign
        self._chance = random.Random(app)

    def run(self) -> None:
        acts = (self._chat, self._chat, self._json, self._context, self._refused, self._disconnect)
        while not self._ends.is_set():
            self._chance.choice(acts)()

    def _send(self, name: str, path: str, body: object, method: str = "POST") -> Any:
        request = post(f"soak: {name}", path, body)._replace(method=method)
        answer = exchange(self._port, request, self._token)
        self._campaign.add(request, answer)
        return answer

    def _body(self, **more: Any) -> dict[str, Any]:
        text = " ".join(self._chance.choices(_WORDS, k=self._chance.randint(1, 400)))
        return {"messages": [{"role": "user", "content": text}], "max_tokens": 8, **more}

    def _chat(self) -> None:
        stream = self._chance.random() < 0.5
        self._send("chat", CHAT, self._body(stream=stream, temperature=self._chance.random()))

    def _json(self) -> None:
        names = self._chance.sample(_WORDS, 3)
        schema = {"type": "object", "properties": {name: {"type": "integer"} for name in names}}
        form = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}
        self._send("JSON", CHAT, self._body(response_format=form))

    def _context(self) -> None:
        path = f"/v1/contexts/{self._send('context', '/v1/contexts', {}).json()['id']}"
        for _ in range(2):
            self._send("turn", f"{path}/chat/completions", self._body())
        self._send("deletion", path, b"", method="DELETE")

    def _refused(self) -> None:
        self._send("refused", CHAT, self._body(temperature=-1, stop=[1] * 50))

    def _disconnect(self) -> None:
        body = self._body(stream=True, ignore_eos=True, max_tokens=500)
        with connect(self._port) as connection:
            send(connection, post("", CHAT, body).to_bytes(self._token))
            connection.recv(500)
