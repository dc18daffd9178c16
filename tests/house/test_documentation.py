"""The documentation's Python runs and prints what the page says; its links and paths exist."""

import contextlib
import io
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.project import PYPROJECT, ROOT

DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]

# A Python block, and its output in the text block that directly follows.
BLOCK = re.compile(
    r"^```python\n(?P<code>.*?)^```\n(?:\n```text\n(?P<printed>.*?)^```\n)?", re.MULTILINE | re.DOTALL
)


# Each block of a page runs by itself, but those of a tutorial one after the other in one module.
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))


def blocks() -> Iterator[object]:
    for path in DOCUMENTS:
        if path in TUTORIALS:
            continue
        text = path.read_text(encoding="utf-8")
        for found in BLOCK.finditer(text):
            line = text.count("\n", 0, found.start("code")) + 1
            yield pytest.param(path, line, found["code"], found["printed"], id=f"{path.name}:{line}")


@pytest.mark.slow
@pytest.mark.usefixtures("untraced")
@pytest.mark.parametrize(("path", "line", "code", "printed"), list(blocks()))
def test_python_in_the_documentation_runs(
    path: Path, line: int, code: str, printed: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_block(path, line, code, printed, {"__name__": "__main__"})


@pytest.mark.slow
@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.name)
def test_tutorials_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text, module = path.read_text(encoding="utf-8"), {"__name__": "__main__"}
    for found in BLOCK.finditer(text):
        line = text.count("\n", 0, found.start("code")) + 1
        run_block(path, line, found["code"], found["printed"], module)


@pytest.fixture
def untraced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ends what a page configures of OpenTelemetry, which a process configures once."""
    trace = pytest.importorskip("opentelemetry.trace")
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
    monkeypatch.setattr(trace, "_TRACER_PROVIDER_SET_ONCE", type(trace._TRACER_PROVIDER_SET_ONCE)())


def run_block(path: Path, line: int, code: str, printed: str | None, module: dict[str, object]) -> None:
    """Run a block of a page in ``module``, and compare what it prints."""
    output = io.StringIO()

    # Empty lines in front make a traceback show the line of the document.
    with contextlib.redirect_stdout(output):
        exec(compile("\n" * (line - 1) + code, str(path), "exec"), module)

    if printed is not None:
        assert output.getvalue() == printed


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
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 200
