"""``agentrt doctor``: report what this machine has, what is missing, and how to install it."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass

import typer

from ..concurrency.interrupts import interrupts_deferred
from ..errors import AgentRTError
from ..extras import MODULES, missing_modules
from .output import output_console

_MIN_FREE_BYTES = 1_000_000_000
_EXTRAS = ("cli", "langgraph", "openai", "runtime", "gateway", "serve", "demo")


@dataclass(frozen=True)
class Finding:
    """One line of the report. ``advice`` says how to mend it; empty if nothing is wrong."""

    subject: str
    found: str
    advice: str = ""
    needed_for_demo: bool = False


def doctor() -> None:
    """Report what this machine has, and whether the demo can run; exits with 1 if it cannot."""
    from rich.markup import escape
    from rich.table import Table

    console = output_console()
    table = Table.grid(padding=(0, 2))
    advice, ready = [], True
    for finding in examine():
        missing = bool(finding.advice)
        ready = ready and not (missing and finding.needed_for_demo)
        table.add_row("[red]-[/]" if missing else "[green]ok[/]", finding.subject, escape(finding.found))
        if missing:
            advice.append(finding.advice)
    console.print(table)
    for line in advice:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    console.print("The demo can run: agentrt demo" if ready else "The demo cannot run yet.")
    if not ready:
        raise typer.Exit(1)


def examine() -> Iterator[Finding]:
    """Yield all findings, in the order of the report."""
    from agentrt.bench.common.machine import describe_machine

    machine = describe_machine()
    yield Finding(
        "processor", f"{machine.cpu}, {machine.usable_cores} of {machine.logical_cores} cores usable"
    )
    yield Finding("memory", f"{machine.memory_bytes / 2**30:.1f} GiB")
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    advice = f"Free some disk space: {folder} has less than 1 GB." if free < _MIN_FREE_BYTES else ""
    yield Finding("disk", f"{free / 1e9:.1f} GB free in {folder}", advice)
    yield Finding("system", f"{machine.operating_system}, {machine.python}")
    for extra in _EXTRAS:
        yield _extra_finding(extra)
    if not missing_modules("runtime"):
        yield from _openvino_findings()
        yield _products_finding()
        yield _nano_model_finding()


def _extra_finding(extra: str) -> Finding:
    missing = missing_modules(extra)
    return Finding(
        f"extra {extra}",
        f"without {', '.join(missing)}" if missing else ", ".join(MODULES[extra]),
        f"{sys.executable} -m pip install 'agentrt[{extra}]'" if missing else "",
        needed_for_demo=extra not in ("openai", "gateway", "serve"),
    )


def _openvino_findings() -> Iterator[Finding]:
    with interrupts_deferred():
        import openvino

        from agentrt.runtime.model.openvino_core import openvino_core

    core = openvino_core()
    yield Finding("openvino", str(openvino.__version__))
    for device in core.available_devices:
        name = core.get_property(device, "FULL_DEVICE_NAME")
        abilities = ", ".join(core.get_property(device, "OPTIMIZATION_CAPABILITIES"))
        yield Finding(f"device {device}", f"{name} ({abilities})")


def _products_finding() -> Finding:
    from agentrt.runtime.model.native.library import COMPILER, describe_library

    found = describe_library()
    if found is not None:
        return Finding("GGUF weights", f"multiplied as they are, {found}")
    advice = f"GGUF files are read faster with a compiler: apt-get install g++, or name yours: {COMPILER}=…"
    return Finding("GGUF weights", "rounded to 8 bits: there is no C++ compiler", advice)


def _nano_model_finding() -> Finding:
    from agentrt.runtime import LocalRuntime

    try:
        with LocalRuntime.open("nano") as runtime:
            found = f"{runtime.model_id}, opens, {runtime.context_length} tokens of context"
    except AgentRTError as error:
        return Finding("nano model", "does not open", str(error), needed_for_demo=True)
    return Finding("nano model", found)
