from __future__ import annotations

import re
import threading
from pathlib import Path

from agentrt.runtime.model.openvino_core import load_on_own_thread, openvino_core

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
