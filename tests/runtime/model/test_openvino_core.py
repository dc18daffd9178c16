"""The one core of a process, and the kernels that oneDNN keeps, as it reports in a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from agentrt.runtime.model.openvino_core import load_on_own_thread, openvino_core

SEEN = """
import ctypes

import numpy as np
import openvino as ov
import openvino.opset15 as opset

from agentrt.runtime.config import RuntimeConfig
from agentrt.runtime.heg.kernel import KernelKind
from agentrt.runtime.xpu.compiled import PieceCompiler

hidden = opset.parameter([-1, 64], ov.Type.f32)
whole = opset.convert(opset.constant(np.ones((64, 64), np.uint8)), ov.Type.f32)
weights = opset.multiply(whole, opset.constant(np.ones((64, 1), np.float32)))
model = ov.Model([opset.matmul(hidden, weights, False, True)], [hidden])
compiler = PieceCompiler("CPU", RuntimeConfig(inference_precision="f32").device_properties())
request = compiler.compile(model, (KernelKind.LAYERS, 0), 1).create_infer_request()


def run(title, lengths):
    print(title, flush=True)
    for length in lengths:
        request.infer([np.ones((length, 64), np.float32)])
    ctypes.CDLL(None).fflush(None)  # oneDNN's lines


run("NEW", range(1, 801))
run("RECENT", range(700, 801))
run("OLD", [2])
"""


def kernels(**environment: str) -> dict[str, list[str]]:
    """Return, by section, whether oneDNN made each kernel (``miss``) or had it in its cache (``hit``)."""
    ended = subprocess.run(
        [sys.executable, "-c", SEEN],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "ONEDNN_VERBOSE": "profile_create", **environment},
    )
    assert ended.returncode == 0, ended.stderr
    found: dict[str, list[str]] = {}
    for line in ended.stdout.splitlines():
        if not line.startswith("onednn_verbose"):
            found[line] = []
        elif found and ("matmul" in line or "inner_product" in line) and "create:cache_" in line:
            found[list(found)[-1]].append("miss" if "cache_miss" in line else "hit")
    return found


@pytest.mark.slow
def test_kernels_of_lengths_long_past_are_not_kept() -> None:
    made = kernels()
    assert set(made["NEW"]) == {"miss"}
    assert len(made["NEW"]) >= 800
    assert made["RECENT"] == []  # the piece has them
    assert "miss" in made["OLD"]  # neither the piece nor oneDNN has it


@pytest.mark.check
def test_a_capacity_that_the_user_has_set_is_kept() -> None:
    made = kernels(ONEDNN_PRIMITIVE_CACHE_CAPACITY="2000")
    assert set(made["OLD"]) == {"hit"}


def test_the_environment_is_left_as_it_was() -> None:
    code = "from agentrt.runtime.model.openvino_core import openvino_core; import os; openvino_core(); "
    shown = "print([name for name in os.environ if name.startswith('ONEDNN')])"
    ended = subprocess.run([sys.executable, "-c", code + shown], capture_output=True, text=True, check=True)
    assert ended.stdout == "[]\n"


ROOT = Path(__file__).parents[3]


def test_models_are_loaded_on_a_thread_that_ends() -> None:
    thread = load_on_own_thread(threading.current_thread)
    assert thread is not threading.current_thread()
    assert not thread.is_alive()


def test_there_is_one_core_per_process() -> None:
    assert openvino_core() is openvino_core()
    folders = ("agentrt", "adapters", "speculators", "runtime", "examples")
    files = {file for folder in folders for file in (ROOT / folder).rglob("*.py")}
    makers = {file.name for file in files if re.search(r"\bCore\(\)", file.read_text(encoding="utf-8"))}
    assert makers == {"openvino_core.py"}
