"""Editors and type checkers see the package, with its types, however it is installed."""

import json
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from tests.house.project import ROOT, checkout, python

PYRIGHT = shutil.which("basedpyright", path=sysconfig.get_path("scripts")) or shutil.which("basedpyright")

pytestmark = [
    pytest.mark.check,
    pytest.mark.slow,
    pytest.mark.skipif(PYRIGHT is None, reason="pyright is not installed here; make types installs it"),
    pytest.mark.skipif(not (ROOT / "agentrt" / "runtime").is_dir(), reason="git made no links here"),
]

USER_CODE = """\
from langchain_core.tools import tool

from agentrt import Priority, SpeculationReport, SpeculationSession, ToolCall, speculable
from agentrt.adapters.langchain import ChatAgentRT, report_of, speculate
from agentrt.runtime import LocalRuntime, RuntimeConfig
from agentrt.speculators import PatternSpeculator, StreamSpeculator


@speculable
def search(text: str, limit: int = 3) -> list[str]:
    return [text] * limit


@speculable(ttl=5.0)
async def fetch(path: str) -> bytes:
    return path.encode()


@speculable
@tool
def get_weather(city: str) -> str:
    'Get the weather in a city.'
    return city


predictors = [PatternSpeculator(), StreamSpeculator()]
model = speculate(ChatAgentRT(model="nano"), predictors, samples=2)
report: SpeculationReport = report_of(model)

with LocalRuntime.open("nano", RuntimeConfig(memory_bytes=2**26)) as runtime:
    generation = runtime.generate([{"role": "user", "content": "Hello!"}], priority=Priority.PROACTIVE)

with SpeculationSession([search], predictors) as session, session.turn([], []) as turn:
    turn.bind([ToolCall("search", {"text": "boats"}, "call_1")])

reveal_type(search)
reveal_type(fetch)
reveal_type(get_weather)
reveal_type(model)
reveal_type(report.total.claims)
reveal_type(runtime)
reveal_type(generation)
reveal_type(generation.text)
reveal_type(session)
"""

REVEALED = {
    "search": "(text: str, limit: int = 3) -> list[str]",
    "fetch": "(path: str) -> CoroutineType[Any, Any, bytes]",
    "get_weather": "BaseTool",
    "model": "ChatAgentRT",
    "report.total.claims": "int",
    "runtime": "LocalRuntime",
    "generation": "Generation",
    "generation.text": "str",
    "session": "SpeculationSession",
}


def environment_with(hook: str, folder: Path) -> Path:
    """The Python of a new environment, in which the wheel from the build hook ``hook`` is installed.

    The project's dependencies are those of the environment that runs the tests.
    """
    project = checkout(folder / "project")
    build = f"import setuptools.build_meta as backend; backend.{hook}({str(folder)!r})"
    built = python("-c", build, cwd=project)
    assert built.returncode == 0, built.stdout + built.stderr

    assert python("-m", "venv", "--without-pip", folder / "venv").returncode == 0
    paths = sysconfig.get_paths("venv", vars={"base": str(folder / "venv")})
    (wheel,) = folder.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(paths["purelib"])
    Path(paths["purelib"], "dependencies.pth").write_text(
        f"{sysconfig.get_path('purelib')}\n", encoding="utf-8"
    )
    return Path(paths["scripts"], Path(sys.executable).name)


@pytest.mark.parametrize("hook", ["build_editable", "build_wheel"])
def test_pyright_resolves_the_package_and_its_types(hook: str, tmp_path: Path) -> None:
    user = tmp_path / "user"
    user.mkdir()
    (user / "agent.py").write_text(USER_CODE, encoding="utf-8")
    (user / "pyrightconfig.json").write_text('{"typeCheckingMode": "standard"}', encoding="utf-8")

    command = [str(PYRIGHT), "--pythonpath", environment_with(hook, tmp_path), "--outputjson"]
    checked = subprocess.run(command, cwd=user, capture_output=True, text=True, check=False)

    found = json.loads(checked.stdout)["generalDiagnostics"]
    assert [one["message"] for one in found if one["severity"] != "information"] == []
    revealed = dict(one["message"].split('" is "') for one in found)
    assert revealed == {f'Type of "{name}': f'{kind}"' for name, kind in REVEALED.items()}
