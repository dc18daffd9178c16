"""A reviewer of uncommitted changes: LangChain's agent over `git diff`.

    python examples/code_reviewer.py
    python examples/code_reviewer.py --model model.gguf --folder ~/my/project

For each changed file the agent is asked for a review. Two tools tell it about the file: one checks the added
lines for what is often wrong, the other one returns the diff. Nano calls the first and repeats it, which is
all that a model of its size can do; a real model reads the diff as well and judges it.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Annotated

from agentrt.examples.gallery import needs_extras

with needs_extras("cli", "langgraph", "runtime"):
    import typer
    from langchain.agents import create_agent
    from langchain_core.messages import HumanMessage
    from langchain_core.tools import BaseTool, tool

    from agentrt import SpeculationConfig, speculable
    from agentrt.adapters.langchain import report_of, speculate
    from agentrt.config import TurnAhead
    from agentrt.examples.assistant.paced import chat_model
    from agentrt.examples.gallery.script import Model, run_script
    from agentrt.runtime.nano import DRAFT_DIRECTORY
    from agentrt.speculators import LocalSpeculator

SUSPECTS = {
    r"except:": "a bare except hides every error",
    r"\bprint\(": "a print is left over",
    r"[!=]= None": "None is compared by value",
    r"\bTODO\b": "a task is left to do",
}


# 1. git, without a shell, and without the programs for diffs that a repository may name.


def git(folder: Path, *arguments: str) -> str:
    """Return what git prints about the repository in ``folder``."""
    settings = ["-c", "core.fsmonitor=false", "-c", "core.quotePath=false"]
    command = ["git", "-C", str(folder), *settings, *arguments]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def diff(folder: Path, *arguments: str) -> str:
    """Return the changes of ``folder`` since its last commit."""
    return git(folder, "diff", "--no-ext-diff", "--no-textconv", "--relative", "HEAD", *arguments)


# 2. Tools. Both only read, and only files that have changed.


def tools_over(folder: Path, changed: list[str]) -> list[BaseTool]:
    """Return the reviewer's tools over the ``changed`` files of a repository."""

    @speculable
    @tool
    async def read_diff(path: str) -> str:
        """Read the diff of a file."""
        known = path in changed
        return await asyncio.to_thread(diff, folder, "--", path) if known else f"{path} has not changed"

    @speculable
    @tool
    async def check_changes(path: str) -> str:
        """Check the changes of a file."""
        added = re.findall(r"^\+(?!\+\+)(.*)", await read_diff.ainvoke({"path": path}), re.MULTILINE)
        found = [text for suspect, text in SUSPECTS.items() if re.search(suspect, "\n".join(added))]
        return f"{path}: {len(added)} lines were added, {' and '.join(found) or 'nothing looks wrong'}."

    return [check_changes, read_diff]


# 3. The review: one question for each file.


def review(folder: Path, model: str) -> None:
    """Print a review of each changed file in the repository ``folder``, and what speculation saved."""
    changed = diff(folder, "--name-only").splitlines()
    drafts = LocalSpeculator(DRAFT_DIRECTORY, threads=1, shares_cores=False)
    faster = speculate(chat_model(model), drafts, config=SpeculationConfig(turn_ahead=TurnAhead()))
    role = "You review code. Name bugs and risks in a few sentences, with lines of the diff."
    agent = create_agent(faster, tools_over(folder, changed), system_prompt=role)
    for path in changed:
        question = HumanMessage(f"Check the changes of {path}")
        state = asyncio.run(agent.ainvoke({"messages": [question]}))
        print(f"> {path}\n{state['messages'][-1].text}")
    print(f"\n{report_of(faster)}")


def write_sample(folder: Path) -> None:
    """Make a repository with two changed files."""
    (folder / "cart.py").write_text("def total(items):\n    return sum(items)\n")
    (folder / "mail.py").write_text("def send(mail):\n    post(mail)\n")
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "-c", "user.name=me", "-c", "user.email=me@localhost", "commit", "--quiet", "-m", "Begin")
    (folder / "cart.py").write_text("def total(items):\n    return sum(items) / len(items)\n")
    (folder / "mail.py").write_text(
        "def send(mail):\n    try:\n        post(mail)\n    except:\n        print(mail)\n"
    )


def main(
    folder: Annotated[Path | None, typer.Option(help="A git repository; by default a sample.")] = None,
    model: Model = "nano",
) -> None:
    """Review the changes in a git repository since its last commit."""
    with tempfile.TemporaryDirectory() as sample:
        if folder is None:
            write_sample(Path(sample))
        review(folder or Path(sample), model)


if __name__ == "__main__":
    run_script(main)
