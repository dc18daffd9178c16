"""Each script of the gallery as people start it: from another folder, with nano, without a network."""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import agentrt.examples
from agentrt.examples.gallery.script import running

EXAMPLES = Path(agentrt.examples.__path__[0]).resolve()
SCRIPTS = sorted(path.stem for path in EXAMPLES.glob("*.py") if path.stem != "__init__")

pytestmark = [pytest.mark.slow, pytest.mark.real_model]


def run(script: str, folder: Path, *arguments: str) -> str:
    """Run a script in ``folder`` and return what it prints. Requests that leave the machine fail."""
    nowhere = "http://127.0.0.1:9"
    offline = {"HTTP_PROXY": nowhere, "HTTPS_PROXY": nowhere, "NO_PROXY": "127.0.0.1"}
    command = [sys.executable, str(EXAMPLES / f"{script}.py"), *arguments]
    environment = {**os.environ, **offline}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("script", SCRIPTS)
def test_each_has_help_and_takes_a_model(script: str, tmp_path: Path) -> None:
    assert "--model" in run(script, tmp_path, "--help")
    command = [sys.executable, "-m", f"agentrt.examples.{script}", "--model", "nope"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    (line,) = done.stderr.splitlines()
    assert done.returncode == 2
    assert line.startswith(f"{script}.py: ")
    assert "nope" in line


def test_the_assistant_answers_what_it_is_given(tmp_path: Path) -> None:
    printed = run("personal_assistant", tmp_path, "What is the weather in Paris and Rome?")
    assert '* get_weather(city="Paris")' in printed
    assert '* get_weather(city="Rome")' in printed
    assert "9 new mails were read in the background." in printed
    assert "2 calls were answered by speculation" in printed or "not predicted" in printed


# Script -> its arguments, and what it prints.
PRINTED: dict[str, tuple[list[str], list[str]]] = {
    "mail_digest": (
        ["--mailbox", "box"],
        ["In Oslo it is 14 degrees", "The digest of 1 mails:\n- Ann writes about Chairs"],
    ),
    "rag_with_citations": (
        [],
        ["Parental leave is 14 weeks.", "  [1] travel.md#1: Train tickets are paid by the office."],
    ),
    "rag_with_citations of a folder": (
        ["--folder", "texts", "What does the document about rent say?"],
        ["  [1] rent.md#2: The rent is due on Monday."],
    ),
    "code_reviewer": (
        [],
        [
            "> cart.py\nIt says: cart.py: 1 lines were added, nothing looks wrong.",
            "a bare except hides every error and a print is left over",
        ],
    ),
    "travel_planner": (
        [],
        [
            "Take tram 28 and see the Alfama quarter on foot.",
            "the answers are equal.",
            "model requests sent ahead were kept",
        ],
    ),
    "mcp_client": (
        [],
        ["Bake it for forty minutes at 190 degrees.", "The boiler was last checked in March."],
    ),
    "openai_agents_sdk": (
        [],
        ["The number is A-17 and the item is oak table.", "The place is Rotterdam and the due is Friday."],
    ),
    "pydantic_ai_agent": (
        [],
        ["The currency is yen and the euro is 0.0061.", "The balance is 310 EUR."],
    ),
}
CLAIMING = {"mcp_client", "openai_agents_sdk", "pydantic_ai_agent"}


@pytest.mark.parametrize("name", PRINTED)
def test_what_a_script_prints(name: str, tmp_path: Path) -> None:
    if name == "mcp_client" and importlib.metadata.version("mcp") < "2":
        pytest.skip("the script is for version 2 of mcp")
    (tmp_path / "box").write_text(
        "From ann@example.org Thu Jan  1 00:00:00 2026\nFrom: Ann\nSubject: Chairs\n\nThe chairs are here.\n"
    )
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "rent.md").write_text("The garage is for bicycles.\n\nThe rent is due on Monday.\n")
    arguments, expected = PRINTED[name]
    printed = run(name.split()[0], tmp_path, *arguments)
    assert [each for each in expected if each not in printed] == []
    if name in CLAIMING:
        (count,) = re.findall(r"^(\d+) of \d+ calls claimed a speculation", printed, re.MULTILINE)
        assert int(count) >= 1


def test_a_gateway_answers_calls_in_front_of_an_engine(tmp_path: Path) -> None:
    printed = run("cluster_gateway", tmp_path)
    assert "> What is the weather in Cairo?\nIn Cairo it is 15 degrees" in printed
    assert "the answers are equal." in printed
    ((plain, faster),) = re.findall(r"(\d+) requests without results .*, (\d+) with them", printed)
    ((answered, calls, reasons),) = re.findall(
        r"(\d+) of (\d+) calls were answered in their stream(.*)", printed
    )
    assert (int(plain), int(calls)) == (16, 8)
    assert int(plain) - int(faster) == int(answered), "each call that is answered saves a request"
    late = sum(map(int, re.findall(r"; (\d+): ", reasons)))
    assert int(answered) + late == 8, "what a slow machine missed is said"


def test_servers_of_examples_run_for_a_gateway_and_do_not_read_the_users_config_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tmp_path / "agentrt"
    settings.mkdir(mode=0o700)
    (settings / "config.toml").write_text('[serve]\nmemory-mib = 1\n[gateway]\nport = "x"\n')
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with (
        running("serve", "--served-model-name", "local") as engine,
        running("gateway", "--upstream", engine) as url,
    ):
        printed = run("cluster_gateway", tmp_path, "--gateway", url, "--model", "local")
    assert "16 requests without results ahead of the calls" in printed
    assert "the answers are equal." in printed


LANGCHAIN = "cli,langgraph,runtime"


MISSING = {
    **dict.fromkeys(
        ("mail_digest", "rag_with_citations", "code_reviewer", "travel_planner"), ("langchain", LANGCHAIN)
    ),
    "mcp_client": ("mcp", "cli,mcp,runtime"),
    "openai_agents_sdk": ("agents", "openai-agents,serve"),
    "pydantic_ai_agent": ("pydantic_ai", "openai,pydantic-ai,serve"),
    "cluster_gateway": ("openai", "openai,serve"),
}


@pytest.mark.parametrize("script", MISSING)
def test_a_missing_package_is_an_error_with_the_line_that_installs_it(script: str) -> None:
    module, extras = MISSING[script]
    without = f"import runpy, sys; sys.modules[{module!r}] = None; runpy.run_path(sys.argv[1])"
    command = [sys.executable, "-c", without, str(EXAMPLES / f"{script}.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.stderr.splitlines()[-1].endswith(f"Run: pip install 'agentrt[{extras}]'")
