"""Commands that tests need beyond Python packages: one table, one marker, one way to skip.

A test is marked ``@pytest.mark.needs("redis-server")``, by hand or by its fixtures (``tests/conftest.py``);
a helper that starts the command calls :func:`require`. Where the command is absent the test is skipped by its
name, and the last line of the run says what was absent and how to get it. With ``--need=redis-server``, as in
CI, the test fails.

Whatever tests start is ended by Ctrl-C, however pytest was started itself.
"""

from __future__ import annotations

import shutil
import signal
import sys
from collections import Counter
from typing import Final

import pytest
from _pytest.terminal import TerminalReporter

COMMANDS: Final = {
    "chromium": (("chromium", "chromium-browser", "google-chrome"), "apt-get install chromium"),
    "curl": (("curl",), "apt-get install curl"),
    "c++": (("g++", "clang++", "c++"), "apt-get install g++"),
    "docker": (("docker",), "apt-get install docker.io"),
    "git": (("git",), "apt-get install git"),
    "make": (("make",), "apt-get install make"),
    "openssl": (("openssl",), "apt-get install openssl"),
    "redis-server": (("valkey-server", "redis-server"), "apt-get install redis-server"),
    "systemctl": (("systemctl",), "apt-get install systemd"),
    "systemd-analyze": (("systemd-analyze",), "apt-get install systemd"),
}
"""The programs that serve as each command, and how Debian and Ubuntu install one."""

_NEEDS: Final = "needs the command "
_needed: frozenset[str] = frozenset()
"""Commands without which tests fail instead of being skipped."""


def require(command: str) -> str:
    """Return the path of a command of :data:`COMMANDS`; where it is absent, skip the running test."""
    programs, install = COMMANDS[command]
    found = None if sys.platform == "win32" else next(filter(None, map(shutil.which, programs)), None)
    if found is None:
        (pytest.fail if command in _needed else pytest.skip)(f"{_NEEDS}{command} ({install})")
    return found


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--need",
        action="append",
        choices=COMMANDS,
        help="fail, do not skip, tests for which this command is absent",
    )


def pytest_configure(config: pytest.Config) -> None:
    global _needed
    _needed = frozenset(config.getoption("--need") or ())
    # A job that a script starts in the background ignores Ctrl-C, and so would what its tests start.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in item.iter_markers("needs"):
        for command in marker.args:
            require(command)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Write the last line, below pytest's own summary."""
    terminal: TerminalReporter | None = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is None:  # a worker of pytest-xdist
        return
    absent: Counter[str] = Counter()
    for report in terminal.stats.get("skipped", ()):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
        _, found, command = reason.partition(_NEEDS)  # with how to install it, in brackets
        absent.update([command] if found else [])
    if absent:
        listed = "; ".join(f"{number} that need {command}" for command, number in sorted(absent.items()))
        terminal.write_line(f"Skipped for commands that this machine lacks: {listed}.")
