"""The documentation shows what the committed reports say, and no measured number beside them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import types
from datetime import datetime
from pathlib import Path

import pytest

from agentrt.bench import documentation
from agentrt.bench.common.machine import describe_machine
from agentrt.bench.common.parts import ContextPart
from agentrt.bench.common.prose import prose_numbers
from agentrt.bench.common.report import BenchReport, Table
from agentrt.bench.documentation import Measured, documents, read_reports, render
from agentrt.errors import InvalidRequestError
from tests.house.project import ROOT

CLEAN_COMMIT = documentation.clean_commit
REPORTS = read_reports(ROOT / "docs" / "figures")
# Decisions say what was measured when they were made.
PAGES = [
    ROOT / "README.md",
    *sorted({*(ROOT / "docs").rglob("*.md")} - {*(ROOT / "docs/decisions").glob("*")}),
]

REPORT = BenchReport(
    bench="engine",
    machine=describe_machine(),
    figures={"ratio": 0.98765, "equal": 50, "ms": 1234.5},
    tables=(
        Table(title="twice", columns=("p50", "p95", "p50", "p95"), rows=((1, 2, 3, 4),)),
        Table(title="nano: times", columns=("side", "ms"), rows=(("ours", 0.5),)),
        Table(title="larger: times", columns=("side", "ms"), rows=(("ours", 12.25), ("theirs", None))),
    ),
    method="It was measured so.",
)
MEASURED = Measured(date="2026-11-22 01:00", commit="abc1234", quick=True, report=REPORT)


def page(lines: str, inside: str = "") -> str:
    return f"Before.\n\n<!-- measured engine\n{lines}\n-->\n{inside}<!-- /measured -->\n\nAfter.\n"


@pytest.mark.parametrize("path", documents(ROOT), ids=lambda path: path.name)
def test_the_regions_are_what_the_reports_say(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert render(text, REPORTS) == text, "run: make figures BENCHES="


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_no_measured_number_stands_outside_the_regions(path: Path) -> None:
    assert prose_numbers(path.read_text(encoding="utf-8")) == []


def test_a_report_says_when_and_where_it_was_measured() -> None:
    for name, measured in REPORTS.items():
        assert measured.report.bench == name
        datetime.strptime(measured.date, "%Y-%m-%d %H:%M")
        assert re.fullmatch(r"\w{7,40}", measured.commit), "measure at a commit without changes"


def test_figures_fill_a_region() -> None:
    filled = render(page("ratio | ours by theirs\nms | a step\nequal | of 50"), {"engine": MEASURED})
    assert "| `ratio` | 0.99 | ours by theirs |" in filled
    assert "| `ms` | 1,234 | a step |" in filled
    assert "| `equal` | 50 | of 50 |" in filled
    assert "`agentrt bench engine --quick` on 2026-11-22 01:00 (UTC) at commit abc1234" in filled
    assert filled.startswith("Before.")
    assert filled.endswith("After.\n")
    assert render(filled, {"engine": MEASURED}) == filled


def test_a_region_shows_figures_of_several_reports() -> None:
    large = MEASURED.model_copy(
        update={"models": ("large.gguf",), "quick": False, "date": "2026-11-23 02:00"}
    )
    lines = "engine ratio | ours by theirs\nlarger equal | of 50, with a large model"
    filled = render(
        page(lines).replace("measured engine", "measured reports"), {"engine": MEASURED, "larger": large}
    )
    assert "| ours by theirs | 0.99 | `agentrt bench engine --quick`, 2026-11-22 |" in filled
    command = "`agentrt bench engine --model large.gguf`, 2026-11-23"
    assert f"| of 50, with a large model | 50 | {command} |" in filled
    assert filled.count(MEASURED.machine()) == 1


def test_small_numbers_and_shares_of_nearly_all_keep_their_digits() -> None:
    found = {"small": 0.0000272, "none": 0.0, "nearly": 1000 / 1003, "all": 1.0}
    report = REPORT.model_copy(update={"figures": found})
    filled = render(page("figures"), {"engine": MEASURED.model_copy(update={"report": report})})
    assert "| `small` | 2.7e-05 |\n| `none` | 0 |\n| `nearly` | 0.997 |\n| `all` | 1 |" in filled


def test_a_table_fills_a_region() -> None:
    filled = render(page("table times | ms", "| old |\n"), {"engine": MEASURED})
    assert "| ms |\n| --- |\n| 12.2 |\n| |\n" in filled
    assert "old" not in filled
    assert "| 1 | 2 | 3 | 4 |" in render(page("table twice"), {"engine": MEASURED})
    assert "| ours | 12.2 |" in render(page("table times"), {"engine": MEASURED})
    filled = render(page("ratio | ours by theirs\ntable times | ms\ntable nano | side"), {"engine": MEASURED})
    assert "| `ratio` | 0.99 | ours by theirs |\n\n| ms |\n| --- |\n| 12.2 |\n| |\n\n| side |" in filled
    assert filled.count("Measured by") == 1


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ("speed | fast", "no figure 'speed'"),
        ("table nothing", "no table 'nothing'"),
        ("table times | weight", "no columns"),
    ],
)
def test_what_no_report_has_is_an_error(lines: str, problem: str) -> None:
    with pytest.raises(InvalidRequestError, match=problem):
        render(page(lines), {"engine": MEASURED})
    with pytest.raises(InvalidRequestError, match="no report of bench 'engine'"):
        render(page(lines), {})
    several = page(f"engine {lines}").replace("measured engine", "measured reports")
    with pytest.raises(InvalidRequestError, match="no figure"):
        render(several, {"engine": MEASURED})
    with pytest.raises(InvalidRequestError, match="no report of bench 'engine'"):
        render(several, {})


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with a page and no report."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs" / "figures").mkdir(parents=True)
    (tmp_path / "README.md").write_text(page("ratio | ours by theirs"))
    return tmp_path


Given = dict[str, dict[str, object]]


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> Given:
    """The options that each bench is run with, at a commit without changes."""
    options: Given = {}

    def bench(name: str) -> types.ModuleType:
        def run(*files: object, **of_run: object) -> BenchReport:
            options[name] = {"files": files, **of_run}
            own = "speculation_models" if name == "speculation" else name
            return REPORT.model_copy(update={"bench": own})

        main = types.ModuleType(f"agentrt.bench.{name}.main")
        main.run = main.run_all = run  # type: ignore[attr-defined]
        return main

    for name in ("context", "drafting", "engine", "models", "scheduler", "speculation"):
        monkeypatch.setitem(sys.modules, f"agentrt.bench.{name}.main", bench(name))
    monkeypatch.setattr(documentation, "clean_commit", lambda: "abc1234")
    monkeypatch.setattr(documentation, "_draw", lambda report, folder: None)
    return options


def refused(*arguments: str) -> None:
    with pytest.raises(SystemExit):
        documentation.main(list(arguments))


def sources() -> dict[str, str]:
    """The command of each report that there is."""
    reports = read_reports(Path("docs/figures"))
    return {name: measured.source().split("`")[1] for name, measured in reports.items()}


def test_the_command_fills_the_pages_of_a_clone(clone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    MEASURED.write(clone / "docs" / "figures" / "engine.json")
    (clone / "docs" / "page.md").write_text("Nothing is measured here.\n")
    documentation.main([])
    assert "0.99" in (clone / "README.md").read_text()
    assert (clone / "docs" / "page.md").read_text() == "Nothing is measured here.\n"
    (clone / "docs" / "page.md").write_text(page("speed | fast"))
    refused()
    assert "no figure 'speed'" in capsys.readouterr().err
    shutil.rmtree(clone / "docs" / "figures")
    refused()
    assert "no docs/figures" in capsys.readouterr().err


def test_a_report_of_tests_names_its_own_command(tmp_path: Path) -> None:
    MEASURED.model_copy(update={"measured_by": "make attack"}).write(tmp_path / "attack.json")
    (found,) = read_reports(tmp_path).values()
    assert found.report == REPORT
    assert found.source().startswith("Measured by `make attack` on 2026-11-22 01:00 (UTC) at commit abc1234")


def test_a_bench_is_measured_at_a_commit(
    clone: Path, given: Given, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(documentation, "clean_commit", CLEAN_COMMIT)
    refused("engine")
    assert "Commit your changes first" in capsys.readouterr().err
    own = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "-q"], ["add", "."], [*own, "commit", "-qm", "One"]):
        subprocess.run(["git", *command], check=True)
    documentation.main(["engine", "--quick"])
    (measured,) = read_reports(clone / "docs" / "figures").values()
    assert (measured.report, measured.quick) == (REPORT, True)
    assert f"at commit {measured.commit}" in (clone / "README.md").read_text()
    refused("engine")  # the page has changed


def test_the_models_of_a_folder_are_measured_together(
    clone: Path, given: Given, capsys: pytest.CaptureFixture[str]
) -> None:
    (clone / "README.md").write_text("")
    refused("models")
    assert "--models DIR" in capsys.readouterr().err
    for name, size in {"large.gguf": 9, "small.gguf": 1, "other.bin": 5}.items():
        (clone / name).write_bytes(bytes(size))
    documentation.main(["--models", str(clone), "models"])
    (files,) = given["models"]["files"]  # type: ignore[misc]
    assert [file.name for file in files] == ["small.gguf", "large.gguf"]
    assert sources().keys() == {"models"}


def test_real_models_have_reports_of_their_own(clone: Path, given: Given) -> None:
    readme = clone / "README.md"
    readme.write_text(readme.read_text().replace("measured engine", "measured scheduler_models"))
    refused("--draft", "small.gguf")
    refused("drafting", "--model", "main.gguf")
    main, small = ["--model", "models/main.gguf"], ["--draft", "models/small.gguf"]
    documentation.main(main)
    of_main = {
        "engine_models": "agentrt bench engine --model main.gguf",
        "scheduler_models": "agentrt bench scheduler --model main.gguf",
    }
    assert sources() == of_main
    assert f"Measured by `{of_main['scheduler_models']}`" in readme.read_text()
    documentation.main([*main, *small, "--quick"])
    speculation = "agentrt bench speculation --model main.gguf --draft small.gguf --quick"
    assert sources()["speculation_models"] == speculation
    documentation.main(["context", "drafting", "engine", *main, *small])
    assert {name: (each.get("model"), each.get("drafts")) for name, each in given.items()} == {
        "context": (main[1], None),
        "drafting": (main[1], [small[1]]),
        "engine": (main[1], None),
        "scheduler": (main[1], None),
        "speculation": (main[1], [small[1]]),
    }
    assert sources()["context"] == "agentrt bench context --model main.gguf"
    documentation.main(["context", "--part", "restarts", "--quick", *main, *small])
    assert given["context"]["parts"] == [ContextPart.RESTARTS]
    assert sources()["context_restarts"] == "agentrt bench context --model main.gguf --part restarts --quick"
