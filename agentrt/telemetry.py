"""Keeps OpenVINO from reporting to its maker.

``import openvino`` sends an event to Google Analytics, creates an ``intel`` folder with a client id in the
user's home, and can hold up the end of the process for three seconds on a machine without a network. It does
so without asking, unless a consent file in that folder says no or ``CI=true`` is set. A runtime that promises
that nothing leaves the machine cannot do that, and must not edit files in the user's home to prevent it.

OpenVINO treats the reporting package as optional and carries a stub for when it is absent. So it is made
absent, in this process only, which needs to have happened before OpenVINO is imported: ``agentrt`` does it
first of all. Where OpenVINO was imported earlier than ``agentrt``, it has already reported.
"""

from __future__ import annotations

import sys


def keep_openvino_quiet() -> None:
    """Make ``import openvino_telemetry`` fail from here on, unless it has already been imported."""
    # None in sys.modules is the documented way to block an import; the type of sys.modules omits it.
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
