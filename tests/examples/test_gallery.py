"""Each script of the gallery as people start it: from another folder, with nano, without a network."""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

import agentrt.examples
from agentrt.examples.gallery.script import running

EXAMPLES = Path(agentrt.examples.__path__[0]).resolve()

pytestmark = [pytest.mark.slow, pytest.mark.real_model]


def run(script: str, folder: Path, *arguments: str) -> str:
    """Run a script in ``folder`` and return what it prints. Requests that leave the machine fail."""
    offline = {
        "HTTP_PROXY": "http://127.0.0.1:9",
        "HTTPS_PROXY": "http://127.0.0.1:9",
        "NO_PROXY": "127.0.0.1",
    }
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{script}.py"), *arguments],
        cwd=folder,
        env={**os.environ, **offline},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def claimed(printed: str) -> int:
    """Return the number of calls that claimed a speculation, by the report that a script prints."""
    (count,) = re.findall(r"^(\d+) of \d+ calls claimed a speculation", printed, re.MULTILINE)
    return int(count)


def test_a_digest_is_written_beside_questions(tmp_path: Path) -> None:
    (tmp_path / "box").write_text(
        "From ann@example.org Thu Jan  1 00:00:00 2026\nFrom: Ann\nSubject: Chairs\n\nThe chairs are here.\n"
    )
    printed = run("mail_digest", tmp_path, "--mailbox", "box")
    assert "In Oslo it is 14 degrees" in printed
    assert "The digest of 1 mails:\n- Ann writes about Chairs" in printed


def test_an_answer_cites_what_was_read(tmp_path: Path) -> None:
    printed = run("rag_with_citations", tmp_path)
    assert "Parental leave is 14 weeks." in printed
    assert "  [1] travel.md#1: Train tickets are paid by the office." in printed


def test_documents_come_from_a_folder(tmp_path: Path) -> None:
    texts = tmp_path / "texts"
    texts.mkdir()
    (texts / "rent.md").write_text("The garage is for bicycles.\n\nThe rent is due on Monday.\n")
    question = "What does the document about rent say?"
    printed = run("rag_with_citations", tmp_path, "--folder", "texts", question)
    assert "  [1] rent.md#2: The rent is due on Monday." in printed


def test_changes_are_reviewed(tmp_path: Path) -> None:
    printed = run("code_reviewer", tmp_path)
    assert "> cart.py\nIt says: cart.py: 1 lines were added, nothing looks wrong." in printed
    assert "a bare except hides every error and a print is left over" in printed


def test_a_journey_is_planned_with_requests_ahead(tmp_path: Path) -> None:
    printed = run("travel_planner", tmp_path)
    assert "Take tram 28 and see the Alfama quarter on foot." in printed
    assert "the answers are equal." in printed
    assert "model requests sent ahead were kept" in printed


@pytest.mark.skipif(importlib.metadata.version("mcp") < "2", reason="the script is for version 2 of mcp")
def test_notes_are_read_from_an_mcp_server(tmp_path: Path) -> None:
    printed = run("mcp_client", tmp_path)
    assert "Bake it for forty minutes at 190 degrees." in printed
    assert "The boiler was last checked in March." in printed
    assert claimed(printed) >= 1


def test_orders_are_found_by_the_agents_sdk(tmp_path: Path) -> None:
    printed = run("openai_agents_sdk", tmp_path)
    assert "The number is A-17 and the item is oak table." in printed
    assert "The place is Rotterdam and the due is Friday." in printed
    assert claimed(printed) >= 1


def test_money_is_looked_up_by_pydantic_ai(tmp_path: Path) -> None:
    printed = run("pydantic_ai_agent", tmp_path)
    assert "The currency is yen and the euro is 0.0061." in printed
    assert "The balance is 310 EUR." in printed
    assert claimed(printed) >= 1


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


def test_servers_of_examples_do_not_read_the_users_config_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tmp_path / "agentrt"
    settings.mkdir(mode=0o700)
    (settings / "config.toml").write_text('[serve]\nmemory-mib = 1\n[gateway]\nport = "x"\n')
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with running("serve", "--model", "nano") as engine, running("gateway", "--upstream", engine) as url:
        assert httpx2.get(f"{url}/models").json()["data"][0]["id"] == "nano"


def test_it_takes_a_gateway_that_runs_already(tmp_path: Path) -> None:
    with (
        running("serve", "--served-model-name", "local") as engine,
        running("gateway", "--upstream", engine) as url,
    ):
        printed = run("cluster_gateway", tmp_path, "--gateway", url, "--model", "local")
    assert "16 requests without results ahead of the calls" in printed
    assert "the answers are equal." in printed


LANGCHAIN = "cli,langgraph,runtime"


@pytest.mark.parametrize(
    ("script", "module", "extras"),
    [
        ("mail_digest", "langchain", LANGCHAIN),
        ("rag_with_citations", "langchain", LANGCHAIN),
        ("code_reviewer", "langchain", LANGCHAIN),
        ("travel_planner", "langchain", LANGCHAIN),
        ("mcp_client", "mcp", "cli,mcp,runtime"),
        ("openai_agents_sdk", "agents", "openai-agents,serve"),
        ("pydantic_ai_agent", "pydantic_ai", "openai,pydantic-ai,serve"),
        ("cluster_gateway", "openai", "openai,serve"),
    ],
)
def test_a_missing_package_is_an_error_with_the_line_that_installs_it(
    script: str, module: str, extras: str
) -> None:
    without = f"import runpy, sys; sys.modules[{module!r}] = None; runpy.run_path(sys.argv[1])"
    command = [sys.executable, "-c", without, str(EXAMPLES / f"{script}.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.stderr.splitlines()[-1].endswith(f"Run: pip install 'agentrt[{extras}]'")
