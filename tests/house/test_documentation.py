"""The documentation's Python runs and prints what the page says; its links and paths exist."""

import ast
import asyncio
import contextlib
import inspect
import io
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import typer

from agentrt import speculable
from agentrt.cli.main import app
from agentrt.examples.gallery.script import running
from agentrt.speculators import PatternSpeculator
from tests.house.project import PYPROJECT, ROOT

DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]

# A Python block, and its output in the text block that directly follows.
BLOCK = re.compile(
    r"^```python\n(?P<code>.*?)^```\n(?:\n```text\n(?P<printed>.*?)^```\n)?", re.MULTILINE | re.DOTALL
)


# Each block of a page runs by itself, but those of a tutorial one after the other in one module.
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
OWN_ADAPTER = ROOT / "docs" / "how-to" / "own-adapter.md"


def blocks() -> Iterator[object]:
    for path in DOCUMENTS:
        if path in (*TUTORIALS, OWN_ADAPTER):
            continue
        text = path.read_text(encoding="utf-8")
        for found in BLOCK.finditer(text):
            line = text.count("\n", 0, found.start("code")) + 1
            opens_a_model = re.search(r"\bLocalRuntime\b|\bURL\b", found["code"])
            yield pytest.param(
                *(path, line, found["code"], found["printed"]),
                id=f"{path.name}:{line}",
                marks=pytest.mark.check if opens_a_model and path.name != "README.md" else (),
            )


@pytest.mark.slow
@pytest.mark.usefixtures("untraced")
@pytest.mark.parametrize(("path", "line", "code", "printed"), list(blocks()))
def test_python_in_the_documentation_runs(
    path: Path, line: int, code: str, printed: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with module_of(code) as module:
        run_block(path, line, code, printed, module)


@pytest.mark.check
@pytest.mark.slow
@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.name)
def test_tutorials_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(path)


@pytest.mark.slow
def test_the_adapter_of_a_made_up_framework_runs_and_is_short() -> None:
    module = run_page(OWN_ADAPTER)
    assert claims_of_a_learner(module) > 0
    blocks = [found["code"] for found in BLOCK.finditer(OWN_ADAPTER.read_text(encoding="utf-8"))]
    framework, adapter, _ = [sum(bool(line) for line in block.splitlines()) for block in blocks]
    assert framework + adapter <= 120


def claims_of_a_learner(module: Mapping[str, Any]) -> int:
    """How often a predictor that learns is right about an agent that makes one call again and again."""
    model = module["speculate"](module["Scripted"](), PatternSpeculator())
    tool = speculable(module["Tool"]("forecast", module["forecast"], module["CITY"]))

    async def main() -> None:
        for _ in range(8):
            await module["Agent"](model, [tool]).run("Umbrella?")

    asyncio.run(main())
    return model.turns.report().total.claims


def run_page(path: Path) -> dict[str, Any]:
    """Run the blocks of a page one after the other in one module, and return it."""
    text = path.read_text(encoding="utf-8")
    with module_of(text) as module:
        for found in BLOCK.finditer(text):
            line = text.count("\n", 0, found.start("code")) + 1
            run_block(path, line, found["code"], found["printed"], module)
        return module


@contextlib.contextmanager
def module_of(code: str) -> Iterator[dict[str, object]]:
    """Yield the module for code of a page: ``URL`` and ``TOKEN``, if it has them, are those of a server."""
    module: dict[str, object] = {"__name__": "__main__"}
    if not re.search(r"\bURL\b", code):
        yield module
        return
    with running("serve", "--model", "nano") as url:
        yield {**module, "URL": url, "TOKEN": "unused"}


@pytest.fixture
def untraced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ends what a page configures of OpenTelemetry, which a process configures once."""
    trace = pytest.importorskip("opentelemetry.trace")
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
    monkeypatch.setattr(trace, "_TRACER_PROVIDER_SET_ONCE", type(trace._TRACER_PROVIDER_SET_ONCE)())


def run_block(path: Path, line: int, code: str, printed: str | None, module: dict[str, object]) -> None:
    """Run a block of a page in ``module``, and compare what it prints."""
    output = io.StringIO()

    # Empty lines in front make a traceback show the line of the document. A cell of a notebook may await.
    text = "\n" * (line - 1) + code
    compiled = compile(text, str(path), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    with contextlib.redirect_stdout(output):
        if compiled.co_flags & inspect.CO_COROUTINE:
            asyncio.run(eval(compiled, module))
        else:
            exec(compiled, module)

    if printed is not None:
        assert output.getvalue() == printed


# What runs is marked "python" and what it prints "text"; the others are for programs that are not Python.
LANGUAGES = {"python", "text", "sh", "bash", "json", "toml", "yaml", "mermaid", ""}
FENCED = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_no_python_is_exempt_from_being_run(path: Path) -> None:
    found = FENCED.findall(path.read_text(encoding="utf-8"))

    assert {language for language, _ in found} <= LANGUAGES
    assert [code for language, code in found if language == "" and re.search(r"^(import|from) ", code)] == []


def command_lines(path: Path) -> Iterator[list[str]]:
    """Yield the words of each call of ``agentrt`` in the shell blocks of a page."""
    for language, code in FENCED.findall(path.read_text(encoding="utf-8")):
        for line in code.replace("\\\n", " ").splitlines() if language in ("sh", "bash") else ():
            if re.match(r"\s*(?:\w+=\S+ +)*agentrt ", line):
                words = shlex.split(line, comments=True)
                yield words[words.index("agentrt") + 1 :]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_commands_in_the_documentation_have_the_options_that_it_names(path: Path) -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    unknown = []
    for words in command_lines(path):
        if not words or words[0] not in commands:
            continue
        known = {
            name for option in commands[words[0]].params for name in (*option.opts, *option.secondary_opts)
        }
        unknown += [word for word in words if word.startswith("--") and word.partition("=")[0] not in known]

    assert unknown == []


def anchors(path: Path) -> set[str]:
    """Return the anchors of a document's headings."""
    headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8")):
        if not target.startswith(("http://", "https://")):
            file, _, anchor = target.partition("#")
            linked = (path.parent / file).resolve() if file else path
            if not linked.exists() or (anchor and anchor not in anchors(linked)):
                broken.append(target)

    assert broken == []


# Pages of the reference are docstrings, and decisions have sections.
GUIDES = [*sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "how-to").glob("*.md")), *TUTORIALS]


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.name)
def test_a_page_begins_with_a_sentence_that_says_what_it_is_for(path: Path) -> None:
    title, first = path.read_text(encoding="utf-8").split("\n\n")[:2]

    assert title.startswith("# ")
    assert not first.startswith(("#", "-", "|", "!", "<", "```"))


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_files_named_in_the_documentation_exist(path: Path) -> None:
    named = re.findall(
        r"`((?:agentrt|adapters|speculators|runtime|examples|tests|docs)/[\w./*-]*)`", path.read_text("utf-8")
    )

    assert [name for name in named if not any(ROOT.glob(name.rstrip("/")))] == []


def test_every_extra_named_in_an_install_line_exists() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in DOCUMENTS)

    named = {
        extra for extras in re.findall(r"(?:agentrt|\.)\[([a-z,]+)\]", text) for extra in extras.split(",")
    }
    assert named <= set(PYPROJECT["project"]["optional-dependencies"])


def test_the_readme_is_short() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    read = FENCED.sub("", re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL))

    assert len(text.splitlines()) <= 200
    assert len(read.split()) <= 700
