"""SIGTERM while clients do not read, and while requests are prepared: the server ends within its bound."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from tests.attack.campaign import Campaign
from tests.attack.server_process import ServerProcess
from tests.attack.test_connections import Clients

_DRAIN_S = 1
_CLOSING_S = 5.0
"""For closing the model and the interpreter after the drain."""
_LOADS: Mapping[str, Callable[[Clients], object]] = {
    "streams that are not read": lambda clients: clients.streams(40),
    "texts of control tokens": lambda clients: clients.control_tokens(8),
    "nothing": lambda clients: None,
    "refusals that are not read": lambda clients: clients.refusals(40),
    "submitted tool outputs": lambda clients: clients.tool_outputs(60),
    "bodies that do not end": lambda clients: clients.unfinished_bodies(40),
}


def test_a_server_ends_within_its_bound_under_every_load(campaign: Campaign) -> None:
    rows = []
    for name in list(_LOADS)[: campaign.size(None, 2)]:
        print(f"SIGTERM: {name}")
        with ServerProcess("serve", "--drain", str(_DRAIN_S)) as server, Clients(server) as clients:
            _LOADS[name](clients)
            time.sleep(0.5)
            seconds = server.stop(60)
            code = server.process.returncode
            rows.append((name, None if seconds is None else round(seconds, 2), code))
            campaign.counts["tries"] += 1
            for line in server.faults():
                campaign.fail(name, line, "faults_logged")
            if seconds is None or seconds > _DRAIN_S + _CLOSING_S or code != 0:
                campaign.fail(name, f"ended after {seconds} s with code {code}: {server.log()[-300:]}")
    campaign.figures["drain_bound_kept"] = float(not campaign.counts["broken_promises"])
    campaign.add_table("SIGTERM", ("load", "ended after s", "exit code"), rows)
