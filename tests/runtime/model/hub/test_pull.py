"""``agentrt pull`` against a real server that speaks the hub's API."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import constants

from agentrt.bench.common.bench_model import open_given_models
from agentrt.bench.common.random_gguf import ModelShape, write_random_gguf
from agentrt.errors import ModelDownloadError, ModelNotFoundError
from agentrt.runtime import LocalRuntime
from agentrt.runtime.model.directory import find_model, open_model_directory
from agentrt.runtime.model.hub.pull import pull_model
from agentrt.runtime.model.hub.pulled import find_pulled, pulled_models, remember_pulled
from agentrt.runtime.model.native.library import native_library
from agentrt.runtime.nano import MODEL_DIRECTORY
from tests.conftest import Command
from tests.runtime.model.hub.hub_server import HubServer, asked_at, serve_hub

GGUF = bytes(range(256)) * 4096
SHA256 = hashlib.sha256(GGUF).hexdigest()
FILE = "/Qwen/Tiny-GGUF/resolve/main/tiny-q4_k_m.gguf"
NAME = "Qwen/Tiny-GGUF:q4_k_m"
NANO = {
    file.name: file.read_bytes()
    for file in Path(MODEL_DIRECTORY).iterdir()
    if file.is_file() and file.suffix in (".xml", ".bin", ".json", ".jinja", ".txt")
}
REPOSITORIES = {
    "OpenVINO/nano-ov": {**NANO, "README.md": b"read me", "original/weights.bin": b"not wanted"},
    "Qwen/Tiny-GGUF": {
        "tiny-q4_k_m.gguf": GGUF,
        "tiny-q8_0-00001-of-00002.gguf": GGUF[:100],
        "tiny-q8_0-00002-of-00002.gguf": GGUF[100:],
        "README.md": b"",
    },
    "someone/torch": {"model.safetensors": b"x"},
}


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[HubServer]:
    with serve_hub(REPOSITORIES) as server, asked_at(server.url, tmp_path):
        yield server


@pytest.mark.socket
def test_an_openvino_repository_is_pulled_once_and_opens_by_its_name(hub: HubServer) -> None:
    def downloaded() -> int:
        return sum(method == "GET" and "/resolve/" in url for method, url, _ in hub.requests)

    path = pull_model("OpenVINO/nano-ov")
    assert {file.name for file in path.iterdir()} == set(NANO)
    assert downloaded() == len(NANO)
    assert pull_model("OpenVINO/nano-ov") == path
    assert downloaded() == len(NANO)
    assert open_model_directory("OpenVINO/nano-ov").path == path


@pytest.mark.socket
def test_a_quantisation_is_pulled_with_all_its_shards(hub: HubServer) -> None:
    assert pull_model("Qwen/Tiny-GGUF:Q4_K_M").read_bytes() == GGUF
    first = pull_model("Qwen/Tiny-GGUF:q8_0")
    assert first.name == "tiny-q8_0-00001-of-00002.gguf"
    assert first.with_name("tiny-q8_0-00002-of-00002.gguf").read_bytes() == GGUF[100:]


@pytest.mark.socket
@pytest.mark.parametrize(
    ("name", "revision", "message"),
    [
        ("Qwen/Tiny-GGUF", None, "q4_k_m, q8_0. Name one: agentrt pull Qwen/Tiny-GGUF:q4_k_m"),
        ("Qwen/Tiny-GGUF:q2_k", None, "q4_k_m, q8_0"),
        ("someone/torch", None, "neither openvino_model.xml nor GGUF files"),
        ("no/such", None, "there is no repository no/such"),
        ("OpenVINO/nano-ov", "v9", "no revision 'v9'"),
    ],
)
def test_what_cannot_be_pulled_is_said_with_what_to_do(
    hub: HubServer, name: str, revision: str | None, message: str
) -> None:
    with pytest.raises(ModelDownloadError, match=message):
        pull_model(name, revision=revision)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["what is this"], "cannot be pulled"),
        (["./x.gguf"], "needs no pulling: name its path"),
        (["models/x.gguf"], "needs no pulling: name its path"),
        ([".hidden/x"], "cannot be pulled"),
        (["llama3.2:3b"], "agentrt models --recommended"),
        (["hf.co/Qwen/Qwen3-4B-GGUF:q4_k_m"], "agentrt models --recommended"),
        (["Qwen/a--b:q4"], "cannot be pulled"),
        (["Qwen/" + "a" * 92 + ":q4"], "cannot be pulled"),
        (["OpenVINO/nano-ov", "--sha256", "0" * 64], "needs no --sha256"),
        (["https://example.com/x.gguf"], "--sha256"),
        (["https://example.com/x.gguf", "--sha256", "abc"], "'abc' is not a SHA-256 digest"),
        (["https://example.com/x.gguf", "--sha256", "0" * 64, "--revision", "v1"], "has no --revision"),
        (["http://example.com/x.gguf", "--sha256", "0" * 64], "is not an https address"),
        (["https://", "--sha256", "0" * 64], "is not the address of a file: it has no host. Write https://"),
        (["https://[/x.gguf", "--sha256", "0" * 64], "is not the address of a file: Invalid IPv6 URL. Write"),
        (["https://x:99999/x.gguf", "--sha256", "0" * 64], "is not the address of a file: Port out of range"),
    ],
)
def test_what_no_hub_is_asked_for(command: Command, arguments: list[str], message: str) -> None:
    code, _, said = command("pull", *arguments)
    assert code == 2
    assert message in said


@pytest.mark.socket
def test_offline_says_what_to_check(hub: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    with asked_at("http://127.0.0.1:9", Path()), pytest.raises(ModelDownloadError, match="HF_ENDPOINT"):
        pull_model("OpenVINO/nano-ov")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ModelDownloadError, match="HF_HUB_OFFLINE"):
        pull_model("OpenVINO/nano-ov")
    assert hub.requests == []


@pytest.mark.socket
def test_a_damaged_download_is_deleted(hub: HubServer) -> None:
    hub.corrupt = True
    with pytest.raises(ModelDownloadError, match="damaged on its way and deleted"):
        pull_model(NAME)
    hub.corrupt = False
    assert pull_model(NAME).read_bytes() == GGUF


@pytest.mark.socket
def test_the_command_requests_nothing_but_the_model(hub: HubServer, tmp_path: Path) -> None:
    folders = {"HF_HOME": "hf", "XDG_CACHE_HOME": "cache", "LOCALAPPDATA": "cache", "HOME": ""}
    environment = {**os.environ, "HF_ENDPOINT": hub.url, "COLUMNS": "400"}
    environment |= {variable: str(tmp_path / folder) for variable, folder in folders.items()}
    command = [sys.executable, "-m", "agentrt", "pull"]
    done = subprocess.run([*command, NAME], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.splitlines()[0]).read_bytes() == GGUF
    assert {url.split("?")[0].split("/")[1] for _, url, _ in hub.requests} <= {"api", "Qwen"}
    assert all("telemetry" not in url for _, url, _ in hub.requests)
    failed = subprocess.run([*command, "no/such"], env=environment, capture_output=True, text=True)
    assert failed.returncode != 0
    assert "there is no repository no/such" in failed.stderr
    assert "Traceback" not in failed.stderr


@pytest.fixture
def compiled_library() -> None:
    """Else the library of native products is compiled into the empty cache folder of ``hub``."""
    native_library()


@pytest.mark.usefixtures("compiled_library")  # before ``hub``
@pytest.mark.socket
def test_a_pulled_gguf_file_opens_by_its_name_wherever_a_model_is_named(
    hub: HubServer, tmp_path: Path
) -> None:
    file = tmp_path / "tiny.gguf"
    write_random_gguf(file, ModelShape("qwen2", 1, 64, 64, 2, 1, 512))
    hub.repositories = {"Qwen/Tiny-GGUF": {"tiny-q8_0.gguf": file.read_bytes()}}
    name = "Qwen/Tiny-GGUF:q8_0"
    pull_model(name)
    assert find_model(name).name == "tiny-q8_0.gguf"
    assert open_given_models([name], lambda line: None)[name].title == "Tiny-GGUF:q8_0"
    with LocalRuntime.open(name) as runtime:
        made = runtime.generate([{"role": "user", "content": "Hello!"}], max_tokens=2, ignore_eos=True)
    assert made.usage.completion_tokens == 2


@pytest.mark.socket
def test_a_download_from_the_hub_is_resumed(hub: HubServer) -> None:
    content = bytes(24 * 2**20)  # the hub's library writes 10 MiB at a time
    hub.repositories = {"Qwen/Tiny-GGUF": {"tiny-q4_k_m.gguf": content}}
    hub.break_after = 15 * 2**20
    assert pull_model(NAME).read_bytes() == content
    begins = [headers["range"] for _, _, headers in hub.requests if "range" in headers]
    assert begins == [f"bytes={10 * 2**20}-"]


@pytest.mark.socket
def test_an_address_is_resumed_and_verified(hub: HubServer) -> None:
    url = hub.url + FILE
    hub.break_after = 500_000
    with pytest.raises(ModelDownloadError, match="goes on where it broke off"):
        pull_model(url, sha256=SHA256)
    path = pull_model(url, sha256=SHA256.upper())
    assert path.read_bytes() == GGUF
    assert hub.requests[-1][2]["range"].startswith("bytes=")
    with pytest.raises(ModelDownloadError, match="is not the file with SHA-256"):
        pull_model(url, sha256="0" * 64)
    assert pull_model(url, sha256=SHA256) == path
    assert [folder.name for folder in path.parents[1].iterdir()] == [SHA256]


def test_an_address_that_does_not_answer_leaves_no_folder(tmp_path: Path) -> None:
    with asked_at("", tmp_path), pytest.raises(ModelDownloadError, match="could not be downloaded"):
        pull_model("http://127.0.0.1:9/x.gguf", sha256="0" * 64)
    assert not list(tmp_path.rglob("0" * 64))


@pytest.mark.socket
def test_a_cache_that_cannot_be_written_is_explained(
    hub: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "file"
    blocked.write_bytes(b"")
    monkeypatch.setattr("platformdirs.user_cache_path", lambda name: blocked / name)
    with pytest.raises(ModelDownloadError, match="make the folder writable"):
        pull_model(hub.url + FILE, sha256=SHA256)
    with pytest.raises(ModelDownloadError, match="its name could not be stored"):
        pull_model(NAME)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(blocked / "hf"))
    with pytest.raises(ModelDownloadError, match=r"\(HF_HOME\), or make it writable"):
        pull_model(NAME)


def test_a_pulled_name_is_found_until_its_files_are_gone(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"x")
    with asked_at("", tmp_path):
        remember_pulled("a/b:q4", path)
        (tmp_path / "cache" / "agentrt" / "models" / "pulled" / "damaged.json").write_text("{")
        assert find_pulled("a/b:q4") == path
        assert pulled_models() == {"a/b:q4": path}
        path.unlink()
        assert find_pulled("a/b:q4") is None
        assert pulled_models() == {}


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("Qwen/Not-Here-GGUF:q4_k_m", "agentrt pull Qwen/Not-Here-GGUF:q4_k_m"),
        ("https://a.example/x.gguf", "agentrt pull https://a.example/x.gguf --sha256 DIGEST"),
        *((path, None) for path in ("./nope", "../nope", "folder/x.gguf", "~/nope", ".hidden/x", "/no/such")),
    ],
)
def test_a_name_that_was_not_pulled_says_how_to_and_a_path_does_not(name: str, advice: str | None) -> None:
    with pytest.raises(ModelNotFoundError) as raised:
        find_model(name)
    assert ("agentrt pull" in str(raised.value)) == (advice is not None)
    assert advice is None or advice in str(raised.value)
