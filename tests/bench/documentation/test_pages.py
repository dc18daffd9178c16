"""The documentation shows what the committed reports say, and no measured number beside them."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path

import pytest

from agentrt.bench.common.estimates import Estimate, exact, median
from agentrt.bench.common.machine import describe_machine
from agentrt.bench.common.report import BenchReport, Table
from agentrt.bench.documentation import main as documentation
from agentrt.bench.documentation.main import run_group
from agentrt.bench.documentation.pages import check, documents, render
from agentrt.bench.documentation.plan import PLAN, Part
from agentrt.bench.documentation.prose import prose_numbers
from agentrt.bench.documentation.reports import Measured, not_in_history, read_reports
from agentrt.bench.documentation.sources import digests_of
from agentrt.errors import ConfigurationError, InvalidRequestError
from tests.house.project import ROOT

IMPORTED = re.compile(r"^\s*from (agentrt\.(?!bench)[\w.]+) import", re.MULTILINE)
REPORTS = read_reports(ROOT / "docs" / "figures")
TWELVE = Estimate(value=12.25, low=12, high=13, samples=5)
REPORT = BenchReport(
    bench="engine",
    machine=describe_machine(),
    figures={
        "ratio": median([0.97, 0.98765, 0.99]),
        "equal": exact(50),
        "ms": Estimate(value=1234.5),
    },
    tables=(
        Table(title="twice", columns=("p50", "p95", "p50", "p95"), rows=((1, 2, 3, 4),)),
        Table(title="nano: times", columns=("side", "ms"), rows=(("ours", 0.5),)),
        Table(title="larger: times", columns=("side", "ms"), rows=(("ours", TWELVE), ("theirs", None))),
    ),
    method="It was measured so.",
)
MEASURED = Measured(
    date="2026-11-22 01:00",
    commit="abc1234",
    quick=False,
    command="agentrt bench engine",
    report=REPORT,
    sources=digests_of(ROOT, ["bench/documentation"]),
).signed()


def page(lines: str, inside: str = "") -> str:
    return f"Before.\n\n<!-- measured engine\n{lines}\n-->\n{inside}<!-- /measured -->\n\nAfter.\n"


@pytest.mark.parametrize("path", documents(ROOT), ids=lambda path: path.name)
def test_the_regions_are_what_the_reports_say(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert render(text, REPORTS, ROOT) == text, "run: make pages"


@pytest.mark.parametrize("path", documents(ROOT), ids=lambda path: path.name)
def test_no_measured_number_stands_outside_the_regions(path: Path) -> None:
    assert prose_numbers(path.read_text(encoding="utf-8")) == []


def test_a_report_says_when_it_was_measured_and_at_a_commit_of_the_history() -> None:
    for name, measured in REPORTS.items():
        assert measured.report.bench == name
        assert not measured.was_edited, f"measure it: make figures PARTS={name}"
        datetime.strptime(measured.date, "%Y-%m-%d %H:%M")
    try:
        gone = not_in_history({measured.commit for measured in REPORTS.values()})
    except ConfigurationError as shallow:
        pytest.skip(str(shallow))
    assert gone == [], "nobody could repeat what was measured there: make figures"


def test_every_report_is_of_the_plan_and_every_room_of_it_exists() -> None:
    assert REPORTS.keys() <= {part.name for part in PLAN}
    rooms = {room for part in PLAN for room in part.rooms}
    assert [room for room in sorted(rooms) if not (ROOT / room).exists()] == []


@pytest.mark.parametrize(
    "part", [part for part in PLAN if "bench" in part.arguments], ids=lambda part: part.name
)
def test_a_part_depends_on_all_that_its_bench_imports(part: Part) -> None:
    covered = [ROOT / room for room in part.rooms]
    bench = ROOT / "bench" / part.arguments[part.arguments.index("bench") + 1]
    imported = {name for file in bench.glob("*.py") for name in IMPORTED.findall(file.read_text("utf-8"))}
    paths = {name: [path for path in paths_of(name) if path.exists()] for name in imported}
    beside = {"agentrt.errors", "agentrt.extras", "agentrt.finite"}  # nothing of them is measured
    if part.name in ("scheduler", "speculation"):  # whose bench serves models only where one is given
        beside |= {"agentrt.runtime", "agentrt.runtime.serving.server"}
    assert [
        name
        for name, found in sorted(paths.items())
        if name not in beside and not any({path, *path.parents} & {*covered} for path in found)
    ] == []


def paths_of(module: str) -> list[Path]:
    """Where the folder or the file of a module may be; of a whole part, its room of what users call."""
    first, *rest = module.removeprefix("agentrt.").split(".")
    root = ROOT / first if (ROOT / first).is_dir() else ROOT / "agentrt" / first
    whole = {"runtime": "local", "runtime.serving.server": "chat"}.get(".".join((first, *rest)), "")
    path = root.joinpath(*rest, whole)
    return [path, path.with_suffix(".py"), path / "__init__.py"]


def test_of_the_server_what_is_measured_is_what_chat_completions_import() -> None:
    measured = {room for part in PLAN if part.name == "engine_models" for room in part.rooms}
    server = ROOT / "runtime/serving/server"
    needed, found = {"chat"}, set[str]()
    while needed:
        found.add(name := needed.pop())
        text = (server / f"{name}.py").read_text(encoding="utf-8")
        needed |= set(re.findall(r"^from \.(\w+) import", text, re.MULTILINE)) - found
    assert {Path(room).stem for room in measured if room.startswith("runtime/serving/server/")} == found


def test_figures_fill_a_region() -> None:
    filled = render(page("ratio | ours by theirs\nms | a step\nequal | of 50"), {"engine": MEASURED}, ROOT)
    assert "| `ratio` | 0.99 | 0.97 to 0.99 | ours by theirs |" in filled
    assert "| `ms` | 1,234 | one run | a step |" in filled
    assert "| `equal` | 50 | exact | of 50 |" in filled
    assert "`agentrt bench engine` on 2026-11-22 01:00 (UTC) at commit abc1234" in filled
    assert filled.startswith("Before.")
    assert filled.endswith("After.\n")
    assert render(filled, {"engine": MEASURED}, ROOT) == filled


def test_a_region_shows_figures_of_several_reports() -> None:
    large = MEASURED.model_copy(
        update={"command": "agentrt bench engine --model large.gguf", "date": "2026-11-23 02:00"}
    )
    lines = "engine ratio | ours by theirs\nlarger equal | of 50, with a large model"
    filled = render(
        page(lines).replace("measured engine", "measured reports"),
        {"engine": MEASURED, "larger": large},
        ROOT,
    )
    assert "| ours by theirs | 0.99 | 0.97 to 0.99 | `agentrt bench engine`, 2026-11-22 |" in filled
    command = "`agentrt bench engine --model large.gguf`, 2026-11-23"
    assert f"| of 50, with a large model | 50 | exact | {command} |" in filled
    assert filled.count(MEASURED.machine()) == 1


def test_small_numbers_and_shares_of_nearly_all_keep_their_digits() -> None:
    numbers = {"small": 0.0000272, "none": 0.0, "nearly": 1000 / 1003, "all": 1.0}
    found = {name: exact(number) for name, number in numbers.items()}
    report = REPORT.model_copy(update={"figures": found})
    filled = render(page("figures"), {"engine": MEASURED.model_copy(update={"report": report})}, ROOT)
    assert "| `small` | 2.7e-05 | exact |\n| `none` | 0 | exact |\n| `nearly` | 0.997 | exact |" in filled


def test_a_table_fills_a_region() -> None:
    filled = render(page("table times | ms", "| old |\n"), {"engine": MEASURED}, ROOT)
    assert "| ms |\n| --- |\n| 12.2 (12 to 13) |\n| |\n" in filled
    assert "old" not in filled
    assert "| 1 | 2 | 3 | 4 |" in render(page("table twice"), {"engine": MEASURED}, ROOT)
    assert "| ours | 12.2 (12 to 13) |" in render(page("table times"), {"engine": MEASURED}, ROOT)
    filled = render(
        page("ratio | ours by theirs\ntable times | ms\ntable nano | side"), {"engine": MEASURED}, ROOT
    )
    assert (
        "0.97 to 0.99 | ours by theirs |\n\n| ms |\n| --- |\n| 12.2 (12 to 13) |\n| |\n\n| side |" in filled
    )
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
        render(page(lines), {"engine": MEASURED}, ROOT)
    several = page(f"engine {lines}").replace("measured engine", "measured reports")
    with pytest.raises(InvalidRequestError, match="no figure"):
        render(several, {"engine": MEASURED}, ROOT)


def test_a_sentence_shows_a_figure_with_its_interval() -> None:
    text = "<!-- figure engine ratio --><!-- / --> of theirs, <!-- figure engine equal -->7<!-- / --> equal"
    filled = render(text, {"engine": MEASURED}, ROOT)
    assert filled.startswith("<!-- figure engine ratio -->0.99 (0.97 to 0.99)<!-- / --> of theirs, ")
    assert filled.endswith("<!-- figure engine equal -->50<!-- / --> equal")


def test_what_is_not_measured_yet_says_so() -> None:
    older = MEASURED.model_copy(update={"sources": {"bench/documentation": "1"}})
    for lines in ("speed | fast", "table nothing"):
        assert "not measured yet." in render(page(lines), {}, ROOT)
        assert "not measured yet in this form.\n\nMeasured by" in render(page(lines), {"engine": older}, ROOT)
    several = page("engine speed | fast").replace("measured engine", "measured reports")
    for reports in ({}, {"engine": older}):
        assert "| fast | not measured yet |" in render(several, reports, ROOT)
        assert ">not measured yet<" in render("<!-- figure engine speed --><!-- / -->", reports, ROOT)
    shown = render(
        page("engine ratio | a").replace("measured engine", "measured reports"), {"engine": older}, ROOT
    )
    assert "2026-11-22, older source |" in shown


def run_git(*arguments: str) -> None:
    own = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", *own, *arguments], check=True, capture_output=True)


def commit_all() -> None:
    run_git("add", ".")
    run_git("commit", "-qm", "One")


PARTS = (
    Part("engine", ("agentrt", "bench", "engine", "--model", "a.gguf"), ("room",), models=("a.gguf",)),
    Part("other", ("other",), ("room", "weights.bin"), workloads=True, has_quick=False),
)


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone to work in, with a page, a plan of two parts, a model, and no report."""
    monkeypatch.chdir(tmp_path)
    for folder in ("docs/figures", "room", "models", "workloads"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / ".gitignore").write_text("models\nworkloads\n")
    (tmp_path / "docs" / "figures" / ".keep").touch()
    (tmp_path / "README.md").write_text("Nothing is measured here.\n")
    (tmp_path / "room" / "code.py").write_text('"""Says one."""\n\nONE = 1\n')
    (tmp_path / "weights.bin").write_bytes(b"12")
    (tmp_path / "models" / "a.gguf").write_bytes(b"weights")
    run_git("init", "-q")
    commit_all()
    monkeypatch.setattr(documentation, "PLAN", PARTS)
    return tmp_path


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The processes that parts have run, each of which writes a report, unless it names ``fails``."""
    processes: list[list[str]] = []

    def run(process: list[str], timeout_s: float) -> int:
        processes.append(process[2:])
        if "fails" not in process:
            REPORT.write(Path(process[process.index("--json") + 1]))
        return int("fails" in process)

    monkeypatch.setattr(documentation, "run_group", run)
    return processes


@pytest.mark.parametrize("hangs", [False, True])
def test_a_part_leaves_no_process_behind(tmp_path: Path, hangs: bool) -> None:
    file = tmp_path / "pid"
    child = [sys.executable, "-c", "import time; time.sleep(600)"]
    code = f"import subprocess, time; process = subprocess.Popen({child})\n"
    code += f"open({str(file)!r}, 'w').write(str(process.pid)); time.sleep({600 * hangs})"
    # What hangs has written by then, however busy the machine is, or is tried again.
    for patience_s in (5, 60, 300) if hangs else (300,):
        ended = run_group([sys.executable, "-c", code], patience_s)
        if file.is_file() and file.stat().st_size:
            break
    assert ended == (None if hangs else 0)
    wait_for_end(int(file.read_text()))


def wait_for_end(process: int) -> None:
    status = Path("/proc", str(process), "stat")
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it may be gone at any moment
        while status.read_text().split()[2] != "Z":
            time.sleep(0.01)


def test_a_run_that_is_terminated_leaves_no_process_behind(clone: Path) -> None:
    (clone / "hangs.py").write_text(
        "import os, pathlib, time\n"
        "pathlib.Path('docs/pid.part').write_text(str(os.getpid()))\n"
        "os.rename('docs/pid.part', 'docs/pid')\n"
        "time.sleep(600)"
    )
    (clone / "run.py").write_text(
        "import runpy, sys\n"
        "from agentrt.bench.documentation import main, plan\n"
        "main.PLAN = [plan.Part('part', ('hangs',), ())]\n"
        "sys.argv[1:] = []\n"
        "runpy.run_module('agentrt.bench.documentation', run_name='__main__')"
    )
    commit_all()
    run = subprocess.Popen([sys.executable, "run.py"])
    file = clone / "docs" / "pid"
    while not file.exists() and run.poll() is None:
        time.sleep(0.01)
    run.terminate()
    assert run.wait() == 128 + signal.SIGTERM
    wait_for_end(int(file.read_text()))


MODELS, WORKLOADS = ["--models", "models"], ["--workloads", "workloads"]


def test_what_is_current_is_not_measured_again(clone: Path, ran: list[list[str]]) -> None:
    documentation.main([*MODELS, *WORKLOADS])
    assert [process[0] for process in ran] == ["agentrt", "other"]
    assert ran[0][:5] == ["agentrt", "bench", "engine", "--model", "models/a.gguf"]
    assert ran[1][-2:] == WORKLOADS
    reports = read_reports(clone / "docs" / "figures")
    assert reports["engine"].command == "agentrt bench engine --model a.gguf"
    assert reports["other"].command == "python -m other --workloads DIR"
    assert reports["other"].report.bench == "other"
    assert reports["engine"].models.keys() == {"a.gguf"}
    documentation.main([*MODELS, *WORKLOADS])
    assert len(ran) == 2
    (clone / "weights.bin").write_bytes(b"34")
    commit_all()
    documentation.main([*MODELS, *WORKLOADS])
    assert [process[0] for process in ran] == ["agentrt", "other", "other"]
    documentation.main(["engine", *MODELS])
    assert len(ran) == 4


def test_a_page_says_what_has_changed_since(clone: Path, ran: list[list[str]]) -> None:
    (clone / "README.md").write_text(page("ratio | ours by theirs"))
    documentation.main([*MODELS, *WORKLOADS])
    assert "before" not in (clone / "README.md").read_text()
    code = clone / "room" / "code.py"
    code.write_text('"""Says 1."""\n\n# One.\nONE = 1\n')  # prose is not what was measured
    commit_all()
    documentation.main(["--fill"])
    assert "before" not in (clone / "README.md").read_text()
    assert check(clone).stale == 0
    code.write_text("ONE = 2\n")
    commit_all()
    documentation.main(["--fill"])
    assert "**Measured before `room` changed.**" in (clone / "README.md").read_text()
    assert check(clone).stale == 1
    code.parent.rename(clone / "elsewhere")
    commit_all()
    documentation.main(["--fill"])
    assert "**Measured before `.` changed.**" in (clone / "README.md").read_text()


def test_a_number_that_is_changed_by_hand_is_shown_as_such(clone: Path, ran: list[list[str]]) -> None:
    (clone / "README.md").write_text(page("ratio | ours by theirs"))
    documentation.main(MODELS)
    file = clone / "docs" / "figures" / "engine.json"
    file.write_text(file.read_text().replace("0.98765", "1.98765"))
    documentation.main(["--fill"])
    assert "**Numbers were edited since.**" in (clone / "README.md").read_text()
    assert check(clone).stale == 1
    documentation.main(MODELS)
    assert "edited" not in (clone / "README.md").read_text()
    assert len(ran) == 2


def test_little_work_is_not_current(clone: Path, ran: list[list[str]]) -> None:
    (clone / "README.md").write_text(page("ratio | ours by theirs"))
    documentation.main([*MODELS, "--quick"])
    assert "**Measured on little work.**" in (clone / "README.md").read_text()
    documentation.main(MODELS)
    assert [process[-1] == "--quick" for process in ran] == [True, False]
    assert "little work" not in (clone / "README.md").read_text()


def test_a_part_that_fails_does_not_stop_the_others(
    clone: Path, ran: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = Part("failing", ("fails",), ("room",))
    monkeypatch.setattr(documentation, "PLAN", (failing, *PARTS))
    with pytest.raises(SystemExit, match="not measured: failing"):
        documentation.main([*MODELS, *WORKLOADS])
    assert read_reports(clone / "docs" / "figures").keys() == {"engine", "other"}


def test_a_part_without_a_table_of_a_figure_is_measured_all_the_same(tmp_path: Path) -> None:
    documentation._draw(REPORT.model_copy(update={"bench": "context", "tables": ()}), tmp_path)
    assert not list(tmp_path.iterdir())


def test_parts_whose_files_are_absent_are_left_out(
    clone: Path, ran: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    documentation.main([])
    assert ran == []
    said = capsys.readouterr().err
    assert "engine: left out, it needs a.gguf in --models" in said
    assert "other: left out, it needs --workloads" in said
    documentation.main([*MODELS, *WORKLOADS, "--quick"])
    assert [process[-1] for process in ran] == ["--quick"]


def test_figures_are_measured_at_a_commit(
    clone: Path, ran: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    (clone / "room" / "code.py").write_text("ONE = 2\n")
    with pytest.raises(SystemExit):
        documentation.main(MODELS)
    assert "Commit your changes first" in capsys.readouterr().err
    commit_all()
    (clone / "README.md").write_text(page("ratio | ours by theirs"))  # pages are what it writes itself
    documentation.main(MODELS)
    (measured,) = read_reports(clone / "docs" / "figures").values()
    assert f"at commit {measured.commit}" in (clone / "README.md").read_text()
    assert not_in_history([measured.commit, "abc1234"]) == ["abc1234"]
    for wrong in (["speed"], []):
        (clone / "README.md").write_text(page("speed | fast"))
        with pytest.raises(SystemExit):
            documentation.main([*wrong, "--fill"])
    assert "no figure 'speed'" in capsys.readouterr().err


def test_the_check_counts_regions_without_an_interval(clone: Path) -> None:
    (clone / "README.md").write_text(
        page("ratio | a\nequal | b") + page("ms | c") + "<!-- figure engine ms --><!-- / -->"
    )
    MEASURED.write(clone / "docs" / "figures" / "engine.json")
    found = check(clone)
    assert found.figures() == {
        "regions": 3,
        "regions_stale": 3,
        "regions_without_interval": 2,
        "reports_not_in_history": 1,
        "prose_numbers_by_hand": 0,
    }
    with pytest.raises(SystemExit) as ended:
        documentation.main(["--check"])
    assert ended.value.code == 1


def test_digests_are_of_code_and_weights(tmp_path: Path) -> None:
    room = tmp_path / "room"
    (room / "__pycache__").mkdir(parents=True)
    (room / "a.py").write_text('def f(x):\n    """Old."""\n    return f"{x}!"\n')
    (room / "__pycache__" / "a.pyc").write_bytes(b"1")

    def digest() -> str:
        return digests_of(tmp_path, ["room"])["room"]

    first = digest()
    (room / "__pycache__" / "a.pyc").write_bytes(b"2")
    (room / "a.py").write_text('def f(x):\n    # New.\n    return f"{x}!"\n')
    assert digest() == first
    (room / "b.bin").write_bytes(b"1")
    assert digest() != first
    assert digests_of(tmp_path, ["gone"]) == {"gone": ""}
