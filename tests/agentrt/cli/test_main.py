import os
import signal
import subprocess
import sys
import textwrap
from importlib import metadata
from pathlib import Path

import pytest

from tests.conftest import Command

process = pytest.mark.slow


def run(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python code with ``arguments`` as the command line."""
    command = [sys.executable, "-c", textwrap.dedent(code), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


START = """
from agentrt.__main__ import main
main()
"""


def test_the_version_is_that_of_the_package(command: Command) -> None:
    assert command("--version") == (0, f"agentrt {metadata.version('agentrt')}\n", "")


@pytest.mark.parametrize("command", [[], ["demo"], ["chat"], ["doctor"], ["bench"]])
@process
def test_help_imports_nothing_heavy(command: list[str]) -> None:
    code = """
        import sys
        from agentrt.__main__ import main
        try:
            main()
        finally:
            heavy = {"langchain", "langchain_core", "langgraph", "openvino", "numpy", "httpx", "icalendar"}
            print("heavy:", sorted(heavy & set(sys.modules)))
    """
    assert "heavy: []" in run(code, *command, "--help").stdout


@pytest.mark.parametrize(
    ("command", "module", "extra"),
    [
        ("--help", "typer", "cli"),
        ("--help", "rich", "cli"),
        ("demo", "icalendar", "demo"),
        ("chat", "icalendar", "demo"),
        ("bench engine --quick", "numpy", "serve"),
        ("bench scheduler --quick", "numpy", "runtime"),
        ("bench speculation --quick", "langchain_core", "bench"),
        ("bench toolcache --quick", "openai", "openai"),
        ("bench toolcache --quick", "uvicorn", "serve"),
    ],
)
@process
def test_without_a_package_it_says_how_to_get_it(command: str, module: str, extra: str) -> None:
    ended = run(f"import sys; sys.modules[{module!r}] = None\n" + START, *command.split())
    assert ended.returncode == 2
    assert ended.stderr == f"agentrt: {module} is not installed. Run: pip install 'agentrt[{extra}]'\n"


def test_an_error_raised_on_purpose_is_one_line_and_exit_code_2(command: Command) -> None:
    error = "agentrt: the mail delay is 85.0 s; choose between 0 and 60 seconds.\n"
    code, _, said = command("demo", "--latency", "1000")
    assert (code, said) == (2, error)


@process
def test_ctrl_c_before_the_command_line_is_read_prints_nothing() -> None:
    code = """
        import importlib.abc, sys
        class Interrupting(importlib.abc.MetaPathFinder):
            def find_spec(self, name, path, target=None):
                if name == "agentrt.cli.main":
                    raise KeyboardInterrupt
        sys.meta_path.insert(0, Interrupting())
    """
    ended = run(textwrap.dedent(code) + START, "--help")
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize("module", ["pydantic", "typer", "agentrt.cli.chat.command", "agentrt.cli.main"])
@pytest.mark.parametrize("entry", [["-m", "agentrt"], ["-c", START]])
@process
def test_ctrl_c_while_the_command_line_is_imported_prints_nothing(
    tmp_path: Path, module: str, entry: list[str]
) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        textwrap.dedent(f"""
            import importlib.abc, os, signal, sys
            class Interrupting(importlib.abc.MetaPathFinder):
                def find_spec(self, name, path, target=None):
                    if name == {module!r}:
                        os.kill(os.getpid(), signal.SIGINT)
            sys.meta_path.insert(0, Interrupting())
        """)
    )
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, *entry, "config"]
    ended = subprocess.run(
        command,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (-signal.SIGINT, "", "")


@process
def test_an_unexpected_error_keeps_its_traceback() -> None:
    code = """
        import sys, types
        broken = types.ModuleType("agentrt.bench.engine.main")
        def fail(**options):
            raise KeyError("a fault of ours")
        broken.run = fail
        sys.modules["agentrt.bench.engine.main"] = broken
    """
    ended = run(textwrap.dedent(code) + START, "bench", "engine")
    assert ended.returncode == 1
    assert "Traceback" in ended.stderr
    assert "a fault of ours" in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["serve", "--memory-mib", "9" * 22], "--memory-mib"),
        (["serve", "--drain", "9" * 400], "--drain"),
        (["serve", "--history-folder", "x"], "--history-folder"),
        (["serve", "--no-auth", "--context-key", "x"], "--context-key"),
        (["serve", "--no-auth", "--context-disk-mib", "3"], "--context-disk-mib"),
        (["serve", "--no-context-folder", "--context-app-mib", "3"], "--context-app-mib"),
        (["serve", "--no-context-folder", "--context-folder", "x"], "--no-context-folder"),
        (["serve", "--no-auth", "--token-file", "x"], "--token-file"),
        (["serve", "--host", "no such host"], "cannot listen"),
        (["serve", "--uds", "FILE/socket"], "cannot listen"),
        (["serve", "--cors-origin", "*"], "is no origin"),
        (["serve", "--embedding-pooling", "cls"], "--embedding-pooling"),
        (["serve", "--embedding-model", "FILE", "--port", "0"], "is no directory"),
        (["gateway", "--upstream", "http://x", "--cors-origin", "http://x/y"], "is no origin"),
        (["serve", "--token-file", "FILE/tokens"], "FILE/tokens cannot be created"),
        (["serve", "--context-folder", ""], "--context-folder: it is empty"),
        (["serve", "--model", "nano", "--model", ""], "--model: it is empty"),
        (["serve", "--context-folder", "~nobody-here/x"], "--context-folder: '~nobody-here/x' begins"),
        (["bench", "engine", "--json", ""], "--json: it is empty"),
        (["bench", "scheduler", "--peer", "http://x:8000"], "--peer serves a model. Name the same one"),
        (["serve", "--model", "FILE", "--port", "0"], "is a file, but a model is"),
        (["gateway", "--upstream", "x"], "is not the address of an engine"),
        (["gateway", "--upstream", "http://x:99999"], "is not the address of an engine"),
        (["gateway", "--upstream", "http://x", "--upstream-timeout", "nan"], "--upstream-timeout"),
        (["gateway", "--upstream", "http://x", "--upstream-timeout", "inf"], "--upstream-timeout"),
        (
            ["gateway", "--upstream", "http://x", "--upstream-key-file", "FILE.key"],
            "--upstream-key-file: FILE.key cannot be used: there is no such file. Create it",
        ),
        (
            ["gateway", "--upstream", "http://x", "--redis", "redis://x", "--redis-password-file", "FILE"],
            "--redis-password-file: FILE cannot be used: other users may read it. Run: chmod 600 FILE",
        ),
        (["profile", "FILE"], "is a file, but a model is"),
        (["profile", "--platform", "nonsense"], "there is no platform"),
        (["profile", "--json", "FILE/x"], "there is no folder"),
        (["demo", "--pace", "nan"], "--pace"),
        (["demo", "--latency", "nan"], "--latency"),
    ],
)
def test_a_value_that_cannot_work_is_explained_without_a_traceback(
    arguments: list[str], problem: str, tmp_path: Path, command: Command
) -> None:
    (tmp_path / "FILE").touch(0o644)
    code, _, error = command(*(argument.replace("FILE", str(tmp_path / "FILE")) for argument in arguments))
    assert code == 2
    said = " ".join(error.replace("│", "").split())
    assert problem in said.replace(str(tmp_path / "FILE"), "FILE")
    assert "Traceback" not in error
    assert "ValidationError" not in error


def test_a_wrong_option_is_a_usage_error(command: Command) -> None:
    code, _, error = command("demo", "--dta", ".")
    assert code == 2
    assert "--dta" in error
    assert "Traceback" not in error
