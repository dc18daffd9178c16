"""Switches off OpenVINO's telemetry.

``import openvino`` sends an event to Google Analytics, creates an ``intel`` folder with a client id in the
user's home, and can delay the end of the process by three seconds on a machine without a network. It does so
without consent, unless a file in that folder refuses it or ``CI=true`` is set. agentrt promises that nothing
leaves the machine, and must not edit files in the user's home to keep that promise.

OpenVINO treats its telemetry package as optional and ships a stub for when it is absent. Blocking the import
in this process makes it absent. That has to happen before OpenVINO is imported, and ``import agentrt`` does
it; if OpenVINO was imported before ``agentrt``, the event has already been sent.
"""

from __future__ import annotations

import sys


def keep_openvino_quiet() -> None:
    """Make ``import openvino_telemetry`` fail from here on, unless it has already been imported."""
    # None in sys.modules is the documented way to block an import; the type of sys.modules omits it.
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
