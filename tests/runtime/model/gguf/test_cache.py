from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import gguf
import numpy as np
import openvino as ov
import pytest

from agentrt.bench.common.random_gguf import CHAT_TEMPLATE, ModelShape, write_random_gguf
from agentrt.errors import ModelFormatError
from agentrt.runtime.files.checksums import CHECKSUMS, check_files, read_checksums
from agentrt.runtime.files.file_lock import file_lock
from agentrt.runtime.model.directory import open_model_directory
from agentrt.runtime.model.gguf import cache as gguf_cache
from agentrt.runtime.model.gguf import conversion, file_format, weights_file
from agentrt.runtime.model.gguf.cache import cached_models, convert_gguf, remove_cached_model
from agentrt.runtime.model.gguf.file_format import read_source
from agentrt.runtime.model.tokenizer import Tokenizer

pytestmark = pytest.mark.real_model

SHAPE = ModelShape("qwen2", 1, 64, 64, 2, 1, 512, 1024)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("gguf") / "Tiny-Q8_0.gguf"
    write_random_gguf(file, SHAPE)
    return file


@pytest.fixture(scope="module")
def converted(file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return convert(file, tmp_path_factory.mktemp("converted"))


@pytest.fixture
def copied(converted: Path, tmp_path: Path) -> Path:
    """A conversion that a test may damage."""
    return Path(shutil.copytree(converted, tmp_path / converted.name))


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with other weights."""
    file = tmp_path_factory.mktemp("other") / "Other.gguf"
    write_random_gguf(file, SHAPE, seed=1)
    return file


def convert(file: Path, cache: Path, *options: Callable[[float], None]) -> Path:
    return convert_gguf(read_source(file), cache, *options)


def visible(folder: Path) -> list[str]:
    """Names in a cache, without locks, which stay."""
    return sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith(".lock-"))


def test_a_gguf_file_opens_as_a_model_directory(file: Path, tmp_path: Path) -> None:
    directory = open_model_directory(file, tmp_path)
    assert directory.model_id == "Tiny-Q8_0"
    assert directory.context_length == 1024
    assert directory.end_token_ids == {2}
    assert directory.path.parent == tmp_path
    assert visible(file.parent) == [file.name]  # nothing is written next to the original
    tokenizer = Tokenizer(directory, 512)
    prompt = tokenizer.encode(tokenizer.render([{"role": "user", "content": "hello <|im_end|>"}], None))
    assert prompt.count(2) == 1  # forged special tokens are encoded as text
    assert "hello" in tokenizer.decode(prompt)


def test_a_file_is_converted_once_whatever_its_path(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = open_model_directory(file, tmp_path / "cache")
    moved = shutil.copy(file, tmp_path / "Renamed.gguf")
    monkeypatch.setattr(conversion, "write_model", None)
    again = open_model_directory(moved, tmp_path / "cache")
    assert again.path == first.path
    assert (first.model_id, again.model_id) == ("Tiny-Q8_0", "Renamed")


def with_template(file: Path, folder: Path, template: bytes) -> Path:
    """Copy ``file`` with another chat template, padded to the length of its own."""
    own = CHAT_TEMPLATE.encode()
    changed = folder / "Changed.gguf"
    changed.write_bytes(file.read_bytes().replace(own, template.ljust(len(own))))
    return changed


def test_a_file_that_was_converted_is_not_parsed_again(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = open_model_directory(file, tmp_path).path
    parsed: list[Path] = []
    read = file_format.read_header

    def parse(file: Path) -> file_format.Header:
        parsed.append(file)
        return read(file)

    monkeypatch.setattr(file_format, "read_header", parse)
    assert open_model_directory(file, tmp_path).path == path
    assert not parsed
    changed = tmp_path / file.name
    for byte in (100, file.stat().st_size // 2, file.stat().st_size - 1):
        content = bytearray(file.read_bytes())
        content[byte] ^= 1
        changed.write_bytes(content)
        with suppress(ModelFormatError):  # the first is of the header
            assert open_model_directory(changed, tmp_path).path != path
    assert len(parsed) == 3


@pytest.mark.parametrize(
    ("template", "error"),
    [
        (b"", r"has no chat template.*instruct.*gguf-new-metadata --chat-template-file"),
        (b"{{ messages[0]['content'] }", r"cannot be parsed: .* at row 1, column \d+"),
    ],
)
def test_a_file_that_cannot_chat_is_refused_before_its_weights_are_converted(
    file: Path, tmp_path: Path, template: bytes, error: str
) -> None:
    changed = with_template(file, tmp_path, template)
    with pytest.raises(ModelFormatError, match=rf"Changed\.gguf {error}"):
        open_model_directory(changed, tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


def test_a_conversion_has_the_digests_of_its_graphs(converted: Path) -> None:
    stated = read_checksums(converted)
    assert stated.keys() == {path.name for path in converted.glob("openvino_*")}
    check_files(converted, stated)


def test_a_file_whose_template_rejects_messages_is_converted(file: Path, tmp_path: Path) -> None:
    changed = with_template(file, tmp_path, b"{{ raise_exception('system first') }}")
    assert open_model_directory(changed, tmp_path / "cache").model_id == "Changed"


def test_progress_reaches_the_whole(file: Path, tmp_path: Path) -> None:
    shares: list[float] = []
    convert(file, tmp_path, shares.append)
    assert shares == sorted(shares)
    assert 0 < shares[0] <= shares[-1] == 1.0
    convert(file, tmp_path, pytest.fail)  # nothing is converted


@pytest.mark.check
@pytest.mark.parametrize("suffix", ["xml", "bin"])
@pytest.mark.parametrize("graph", ["model", "tokenizer", "detokenizer"])
@pytest.mark.parametrize("size", [None, 0, 1000])
def test_a_damaged_conversion_is_replaced(
    copied: Path, file: Path, graph: str, suffix: str, size: int | None
) -> None:
    name = f"openvino_{graph}.{suffix}"
    if size is None:
        (copied / name).unlink()
    else:
        os.truncate(copied / name, size)
    assert open_model_directory(file, copied.parent).path == copied
    assert visible(copied.parent) == [copied.name]
    Tokenizer(open_model_directory(file, copied.parent), 512)


@pytest.mark.parametrize(
    "config",
    [
        *("{", "[]", "{}", '{"files": 1}', '{"files": {"config.json": null}}'),
        "no digests, as of older versions",
    ],
)
def test_a_conversion_without_sizes_or_digests_is_replaced(copied: Path, file: Path, config: str) -> None:
    if "digests" in config:
        stored = json.loads((copied / "config.json").read_text())
        del stored["files"][CHECKSUMS]
        config = json.dumps(stored)
    (copied / "config.json").write_text(config)
    assert open_model_directory(file, copied.parent).path == copied
    files = {path.name: path.stat().st_size for path in copied.iterdir() if path.name != "config.json"}
    assert json.loads((copied / "config.json").read_text())["files"] == files


@pytest.mark.parametrize("name", ["openvino_model.xml", "openvino_tokenizer.xml"])
def test_errors_of_a_conversion_name_the_file_and_its_mend(
    copied: Path, file: Path, tmp_path: Path, name: str
) -> None:
    (copied / name).write_bytes(bytes((copied / name).stat().st_size))  # of the same size
    renamed = shutil.copy(file, tmp_path / "Renamed.gguf")
    with pytest.raises(ModelFormatError) as raised:
        open_model_directory(renamed, tmp_path)
    assert "Renamed.gguf" in str(raised.value)
    assert str(raised.value).endswith("agentrt models --remove Tiny-Q8_0")
    assert "optimum-cli" not in str(raised.value)


CONVERT = """
import resource, signal, sys, time
from pathlib import Path
from agentrt.errors import ModelFormatError
from agentrt.runtime.files import file_lock
from agentrt.runtime.model.gguf.cache import convert_gguf
from agentrt.runtime.model.gguf.file_format import read_source

action = sys.argv[3]
if action.isdigit():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # writing fails as on a full disk
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(action), resource.RLIM_INFINITY))
def advance(share):
    if action == "kill" and share > 0.5:
        signal.raise_signal(signal.SIGKILL)
    if action == "print":
        print(share, flush=True)
file_lock._wait = lambda: print("waits", flush=True) or time.sleep(0.01)
try:
    convert_gguf(read_source(Path(sys.argv[1])), Path(sys.argv[2]), advance)
except ModelFormatError as error:
    print(error)
    sys.exit(3)
"""


def convert_elsewhere(file: Path, cache: Path, action: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", CONVERT, file, cache, action], capture_output=True, text=True, check=False
    )


@pytest.mark.skipif(sys.platform != "linux", reason="limits the size of files as Linux does")
@pytest.mark.parametrize("limit", [1, 2_000, 20_000, 60_000])
def test_a_full_disk_is_an_error_that_leaves_nothing(file: Path, tmp_path: Path, limit: int) -> None:
    done = convert_elsewhere(file, tmp_path, str(limit))
    assert done.returncode == 3, done.stderr
    assert "Tiny-Q8_0.gguf cannot be converted" in done.stdout
    assert "(File too large). Free disk space there" in done.stdout
    assert visible(tmp_path) == []


@pytest.mark.parametrize("written", ["nothing", "a part"])
@pytest.mark.parametrize("call", ["save_model", "serialize"])
def test_a_full_disk_that_openvino_does_not_report_as_one(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, written: str
) -> None:
    """It raises a RuntimeError that names another cause, or writes a part of a graph and returns."""

    def write(model: object, graph: Path, *args: object, **options: object) -> None:
        if written == "nothing":
            raise RuntimeError("Exception from src/core: Can't open the file")
        Path(graph).write_text("<net>")

    def full(probe: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ov, call, write)
    with pytest.raises(ModelFormatError, match=r"Download the file again|is missing|truncated"):
        convert(file, tmp_path)
    monkeypatch.setattr(weights_file, "_probe", full)
    with pytest.raises(ModelFormatError, match=r"\(No space left on device\)\. Free disk space there"):
        convert(file, tmp_path)
    assert visible(tmp_path) == []


@pytest.mark.parametrize("error", [ZeroDivisionError("division by zero"), IndexError(), MemoryError()])
def test_numbers_that_no_model_has_are_refused(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(metadata: object) -> None:
        raise error

    monkeypatch.setattr(conversion, "read_hyperparameters", fail)
    with pytest.raises(ModelFormatError, match=r"cannot be converted: .*\. Download the file again"):
        convert(file, tmp_path)


@pytest.mark.skipif(sys.platform == "win32", reason="sends a signal")
@pytest.mark.parametrize("model", ["file", "other"])
def test_what_a_killed_process_left_is_replaced_or_deleted(
    file: Path, tmp_path: Path, request: pytest.FixtureRequest, model: str
) -> None:
    assert convert_elsewhere(file, tmp_path, "kill").returncode == -signal.SIGKILL
    assert [name.startswith(".converting-") for name in visible(tmp_path)] == [True]
    assert cached_models(tmp_path) == []
    directory = convert(request.getfixturevalue(model), tmp_path)
    assert visible(tmp_path) == [directory.name]


def test_a_conversion_in_progress_is_left_alone(file: Path, tmp_path: Path) -> None:
    for unfinished in ("a", "b"):
        (tmp_path / f".converting-{unfinished}").mkdir()
    with file_lock(tmp_path / ".lock-a"):
        directory = convert(file, tmp_path)
        assert visible(tmp_path) == [".converting-a", directory.name]
    convert(file, tmp_path)  # which is converted already
    assert visible(tmp_path) == [directory.name]


def test_a_second_process_waits_and_shares(file: Path, tmp_path: Path) -> None:
    directory = convert(file, tmp_path / "once")
    cache = tmp_path / "cache"
    cache.mkdir()
    with file_lock(cache / f".lock-{directory.name.rpartition('-')[2]}"):
        second = subprocess.Popen(
            [sys.executable, "-c", CONVERT, file, cache, "print"], stdout=subprocess.PIPE, text=True
        )
        assert second.stdout is not None
        assert second.stdout.readline() == "waits\n"
        assert visible(cache) == []
        shutil.copytree(directory, cache / directory.name)
    assert set(second.communicate()[0].splitlines()) <= {"waits"}  # it converted nothing
    assert second.returncode == 0


def test_threads_convert_once(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    conversions, write = [], conversion.write_model
    monkeypatch.setattr(conversion, "write_model", lambda *args: (conversions.append(args), write(*args)))
    threads = [threading.Thread(target=convert_gguf, args=(read_source(file), tmp_path)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(conversions) == 1


def split(file: Path, folder: Path, parts: int) -> list[Path]:
    """Split a GGUF file as llama-gguf-split does."""
    reader = gguf.GGUFReader(file)
    files = [folder / f"split-{part + 1:05}-of-{parts:05}.gguf" for part in range(parts)]
    for part, name in enumerate(files):
        writer = gguf.GGUFWriter(name, "qwen2")
        if part == 0:
            for key, field in reader.fields.items():
                if not key.startswith(("GGUF.", "general.architecture")):
                    inner = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
                    writer.add_key_value(key, field.contents(), field.types[0], sub_type=inner)
        writer.add_uint16("split.no", part)
        writer.add_uint16("split.count", parts)
        for tensor in reader.tensors[part::parts]:
            writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
    return files


def test_a_split_model_opens_by_any_of_its_files(file: Path, tmp_path: Path) -> None:
    files = split(file, tmp_path, 3)
    whole = convert(file, tmp_path / "cache")
    parts = {convert(part, tmp_path / "cache") for part in files}
    assert len(parts) == 1
    directory = parts.pop()
    assert directory.name.startswith("split-")
    weights = "openvino_model.bin"
    a, b = (np.sort(np.fromfile(path / weights, np.uint8)) for path in (whole, directory))
    np.testing.assert_array_equal(a, b)  # in another order
    assert open_model_directory(files[1], tmp_path / "cache").model_id == "split"
    files[2].unlink()
    with pytest.raises(ModelFormatError, match=r"one of 3 files.*missing in .*: split-00003-of-00003\.gguf"):
        convert(files[0], tmp_path / "other")
    renamed = files[0].rename(tmp_path / "renamed.gguf")
    with pytest.raises(ModelFormatError, match=r"not named like one.*NAME-00001-of-00003\.gguf"):
        convert(renamed, tmp_path / "other")


def test_cached_models_are_listed_and_removed(file: Path, other: Path, tmp_path: Path) -> None:
    assert cached_models(tmp_path / "nowhere") == []
    cache = tmp_path / "cache"
    for at, path in enumerate([file, other]):
        os.utime(convert(path, cache), (at, at))
    models = cached_models(cache)
    assert [model.converted_from for model in models] == ["Other", "Tiny-Q8_0"]
    assert models[0].size > other.stat().st_size / 2
    remove_cached_model(models[0])
    assert cached_models(cache) == models[1:]
    convert(other, cache)
    assert [model.converted_from for model in cached_models(cache)] == ["Other", "Tiny-Q8_0"]


def test_a_conversion_replaces_those_of_older_versions(
    file: Path, other: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    former, of_another_file = (convert(path, cache) for path in (file, other))
    with monkeypatch.context() as newer:
        newer.setattr(gguf_cache, "_CONVERSION", gguf_cache._CONVERSION + 1)
        latest = convert(file, cache)
        assert visible(cache) == sorted([latest.name, of_another_file.name])
        assert convert(file, cache) == latest
    # The older version converts once more, and both keep what they have.
    assert convert(file, cache) == former
    assert visible(cache) == sorted([former.name, latest.name, of_another_file.name])


def test_a_conversion_that_another_version_writes_is_left_alone(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    former = convert(file, tmp_path)
    fingerprint = former.name.rpartition("-")[2]
    monkeypatch.setattr(gguf_cache, "_CONVERSION", gguf_cache._CONVERSION + 1)
    with file_lock(tmp_path / f".lock-{fingerprint}"):
        latest = convert(file, tmp_path)
    assert visible(tmp_path) == sorted([former.name, latest.name])


@pytest.mark.check
def test_memory_is_bounded_by_a_piece_of_a_tensor(tmp_path: Path) -> None:
    file = tmp_path / "large.gguf"
    write_random_gguf(file, ModelShape("llama", 1, 1024, 8192, 8, 2, 32_000))
    convert(file, tmp_path)  # imports
    tracemalloc.start()
    convert(file, tmp_path / "again")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 48 * 2**20 < file.stat().st_size
