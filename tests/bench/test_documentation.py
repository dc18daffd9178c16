"""The documentation shows what the committed reports say, and no measured number beside them."""

from __future__ import annotations

import re
import subprocess
import sys
import types
from datetime import datetime
from pathlib import Path

import pytest

from agentrt.bench import documentation
from agentrt.bench.common.machine import describe_machine
from agentrt.bench.common.parts import ContextPart
from agentrt.bench.common.report import BenchReport, Table
from agentrt.bench.documentation import Measured, documents, read_reports, render
from agentrt.errors import InvalidRequestError
from tests.house.project import ROOT

REPORTS = read_reports(ROOT / "docs" / "figures")
REGION = re.compile(r"<!-- measured .*?<!-- /measured -->", re.DOTALL)
CODE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
# A share, a ratio, a time or a rate.
MEASUREMENT = re.compile(
    r"\b\d[\d,.]*( %| ?(ms|GB/s|MB|tokens? (a|per) second|tokens/s|times)\b)|\b\d+\.\d\d+\b"
)
BY_HAND = re.compile(r"[Mm]easured by hand on (\d{4}-\d\d-\d\d)")

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


@pytest.mark.parametrize("path", documents(ROOT), ids=lambda path: path.name)
def test_no_measured_number_stands_outside_the_regions(path: Path) -> None:
    text = CODE.sub("", REGION.sub("", path.read_text(encoding="utf-8")))
    names = {name for measured in REPORTS.values() for name in measured.report.figures}
    benches = {f"agentrt bench {name}" for name in REPORTS}
    offences = []
    # A table belongs to the paragraph before it.
    for lines in re.split(r"\n\s*\n(?!\|)", text):
        paragraph = " ".join(lines.split())
        about_benches = any(f"`{name}`" in paragraph for name in names) or any(
            each in paragraph for each in benches
        )
        claims = about_benches or re.search(r"\b[Mm]easured\b", paragraph)
        if claims and MEASUREMENT.search(paragraph) and not BY_HAND.search(paragraph):
            offences.append(paragraph)
    assert offences == []


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


def test_a_small_number_is_not_shown_as_none() -> None:
    report = REPORT.model_copy(update={"figures": {"ratio": 0.0000272, "equal": 0.0}})
    filled = render(page("figures"), {"engine": MEASURED.model_copy(update={"report": report})})
    assert "| `ratio` | 2.7e-05 |\n| `equal` | 0 |" in filled


def test_a_share_of_nearly_all_is_not_shown_as_all() -> None:
    report = REPORT.model_copy(update={"figures": {"ratio": 1000 / 1003, "equal": 1.0}})
    filled = render(page("figures"), {"engine": MEASURED.model_copy(update={"report": report})})
    assert "| `ratio` | 0.997 |\n| `equal` | 1 |" in filled


def test_a_table_fills_a_region() -> None:
    filled = render(page("table times | ms", "| old |\n"), {"engine": MEASURED})
    assert "| ms |\n| --- |\n| 12.2 |\n| |\n" in filled
    assert "old" not in filled
    assert "| 1 | 2 | 3 | 4 |" in render(page("table twice"), {"engine": MEASURED})
    assert "| ours | 12.2 |" in render(page("table times"), {"engine": MEASURED})


def test_figures_and_tables_share_a_region() -> None:
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


def test_the_command_fills_the_pages_of_a_clone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        documentation.main([])
    assert "no docs/figures" in capsys.readouterr().err
    (tmp_path / "docs" / "figures").mkdir(parents=True)
    (tmp_path / "docs" / "figures" / "engine.json").write_text(MEASURED.model_dump_json())
    (tmp_path / "README.md").write_text(page("ratio | ours by theirs"))
    (tmp_path / "docs" / "page.md").write_text("Nothing is measured here.\n")
    documentation.main([])
    assert "0.99" in (tmp_path / "README.md").read_text()
    assert (tmp_path / "docs" / "page.md").read_text() == "Nothing is measured here.\n"
    (tmp_path / "docs" / "page.md").write_text(page("speed | fast"))
    with pytest.raises(SystemExit):
        documentation.main([])
    assert "no figure 'speed'" in capsys.readouterr().err


def test_a_report_of_tests_names_its_own_command(tmp_path: Path) -> None:
    measured = Measured(date="2026-01-01 10:00", commit="abc1234", quick=False, report=REPORT)
    measured.model_copy(update={"measured_by": "make attack"}).write(tmp_path / "attack.json")
    (found,) = read_reports(tmp_path).values()
    assert found.report == REPORT
    assert found.source().startswith("Measured by `make attack` on 2026-01-01 10:00 (UTC) at commit abc1234")


def test_a_bench_is_measured_at_a_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    main = types.ModuleType("agentrt.bench.engine.main")
    main.run = lambda **options: REPORT  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, main.__name__, main)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs" / "figures").mkdir(parents=True)
    (tmp_path / "README.md").write_text(page("ratio | ours by theirs"))
    with pytest.raises(SystemExit):
        documentation.main(["engine"])
    assert "Commit your changes first" in capsys.readouterr().err
    for command in (
        ["init", "-q"],
        ["add", "."],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "One"],
    ):
        subprocess.run(["git", *command], check=True)
    documentation.main(["engine", "--quick"])
    (measured,) = read_reports(tmp_path / "docs" / "figures").values()
    assert (measured.report, measured.quick) == (REPORT, True)
    assert f"at commit {measured.commit}" in (tmp_path / "README.md").read_text()
    with pytest.raises(SystemExit):  # the page has changed
        documentation.main(["engine"])


def test_the_models_of_a_folder_are_measured_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measured: list[str] = []

    def run_all(files: list[Path], **options: object) -> BenchReport:
        measured.extend(file.name for file in files)
        return REPORT.model_copy(update={"bench": "models"})

    main = types.ModuleType("agentrt.bench.models.main")
    main.run_all = run_all  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, main.__name__, main)
    monkeypatch.setattr(documentation, "clean_commit", lambda: "abc1234")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs" / "figures").mkdir(parents=True)
    (tmp_path / "README.md").write_text("")
    with pytest.raises(SystemExit):
        documentation.main(["models"])
    assert "--models DIR" in capsys.readouterr().err
    for name, size in {"large.gguf": 9, "small.gguf": 1, "other.bin": 5}.items():
        (tmp_path / name).write_bytes(bytes(size))
    documentation.main(["--models", str(tmp_path), "models"])
    assert measured == ["small.gguf", "large.gguf"]
    assert (tmp_path / "docs" / "figures" / "models.json").exists()


def test_real_models_have_a_report_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, object] = {}

    def run(**options: object) -> BenchReport:
        given.update(options)
        return REPORT.model_copy(update={"bench": "speculation_models"})

    scheduled: dict[str, object] = {}

    def run_scheduler(**options: object) -> BenchReport:
        scheduled.update(options)
        return REPORT.model_copy(update={"bench": "scheduler"})

    def run_engine(**options: object) -> BenchReport:
        assert options["model"] == "models/main.gguf"
        return REPORT.model_copy(update={"bench": "engine"})

    for name, function in {"speculation": run, "scheduler": run_scheduler, "engine": run_engine}.items():
        main = types.ModuleType(f"agentrt.bench.{name}.main")
        main.run = function  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, main.__name__, main)
    monkeypatch.setattr(documentation, "clean_commit", lambda: "abc1234")
    monkeypatch.setattr(documentation, "_draw", lambda report, folder: None)
    monkeypatch.chdir(tmp_path)
    figures = tmp_path / "docs" / "figures"
    figures.mkdir(parents=True)
    readme = tmp_path / "README.md"
    readme.write_text(page("ratio | ours").replace("measured engine", "measured scheduler_models"))
    with pytest.raises(SystemExit):
        documentation.main(["--draft", "small.gguf"])
    with pytest.raises(SystemExit):
        documentation.main(["drafting", "--model", "main.gguf"])
    documentation.main(["--model", "models/main.gguf"])
    assert (scheduled["model"], "drafts" in scheduled, given) == ("models/main.gguf", False, {})
    measured = {"engine_models.json", "scheduler_models.json"}
    assert {path.name for path in figures.iterdir()} == measured
    assert "Measured by `agentrt bench scheduler --model main.gguf`" in readme.read_text()
    readme.write_text(page("ratio | ours").replace("measured engine", "measured speculation_models"))
    documentation.main(["--model", "models/main.gguf", "--draft", "models/small.gguf", "--quick"])
    assert (given["model"], given["drafts"]) == ("models/main.gguf", ["models/small.gguf"])
    assert {path.name for path in figures.iterdir()} == {*measured, "speculation_models.json"}
    command = "agentrt bench speculation --model main.gguf --draft small.gguf --quick"
    assert f"Measured by `{command}`" in readme.read_text()


def test_the_context_bench_gets_the_main_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, dict[str, object]] = {}

    for name in ("context", "drafting", "engine", "scheduler", "speculation"):
        main = types.ModuleType(f"agentrt.bench.{name}.main")

        def run(name: str = name, **options: object) -> BenchReport:
            given[name] = options
            return REPORT.model_copy(update={"bench": name})

        main.run = run  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, main.__name__, main)
    monkeypatch.setattr(documentation, "clean_commit", lambda: "abc1234")
    monkeypatch.setattr(documentation, "_draw", lambda report, folder: None)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs" / "figures").mkdir(parents=True)
    (tmp_path / "README.md").write_text("")
    documentation.main(["context", "drafting", "engine", "--model", "main.gguf", "--draft", "small.gguf"])
    assert {name: (each.get("model"), each.get("drafts")) for name, each in given.items()} == {
        "context": ("main.gguf", None),
        "drafting": ("main.gguf", ["small.gguf"]),
        "engine": ("main.gguf", None),
        "scheduler": ("main.gguf", None),
        "speculation": ("main.gguf", ["small.gguf"]),
    }
    (measured,) = (each for name, each in read_reports(Path("docs/figures")).items() if name == "context")
    assert measured.source().startswith("Measured by `agentrt bench context --model main.gguf`")
    documentation.main(
        ["context", "--part", "restarts", "--quick", "--model", "main.gguf", "--draft", "small.gguf"]
    )
    assert given["context"]["parts"] == [ContextPart.RESTARTS]
    restarts = read_reports(Path("docs/figures"))["context_restarts"]
    command = "agentrt bench context --model main.gguf --part restarts --quick"
    assert restarts.source().startswith(f"Measured by `{command}`")
