"""The installed wheel, used from a folder that is not the repository. Run by .ci/run, not by `make test`."""

import importlib
import pkgutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import agentrt
from agentrt.runtime import LocalRuntime

BIN = Path(sys.executable).parent

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Current weather in a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


def test_it_is_the_installed_package() -> None:
    assert Path(agentrt.__file__).is_relative_to(sys.prefix)
    assert metadata.version("agentrt")


def test_every_module_imports_without_the_training_packages() -> None:
    failed = []
    for module in pkgutil.walk_packages(agentrt.__path__, "agentrt."):
        if not module.name.startswith("training.nano.recipe.") and not module.name.endswith("__main__"):
            try:
                importlib.import_module(module.name)
            except ImportError as error:
                failed.append((module.name, str(error)))

    assert failed == []
    assert not {"torch", "transformers", "tokenizers"} & set(sys.modules)


def test_the_nano_model_calls_a_tool() -> None:
    with LocalRuntime.open("nano") as runtime:
        generation = runtime.generate(
            [{"role": "user", "content": "What is the weather in Oslo?"}], tools=[WEATHER], max_tokens=64
        )

    assert generation.finish_reason == "tool_calls"
    assert [(call.name, dict(call.arguments)) for call in generation.tool_calls] == [
        ("get_weather", {"city": "Oslo"})
    ]


@pytest.mark.parametrize("command", [[str(BIN / "agentrt")], [sys.executable, "-m", "agentrt"]])
def test_the_commands_explain_themselves(command: list[str]) -> None:
    shown = subprocess.run([*command, "--help"], capture_output=True, text=True, check=True).stdout

    assert all(name in shown for name in ("demo", "chat", "doctor", "bench"))
