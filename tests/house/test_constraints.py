"""constraints.txt pins everything that the Makefile installs."""

import re
import sys
from importlib import metadata

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.house.project import PYPROJECT, ROOT, imports, modules

PROJECT = PYPROJECT["project"]

# The extras that the Makefile installs; "dev" contains "demo" and "bench".
EXTRAS = ["dev", "types", "docs", "redis", "browser"]


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


def direct_requirements(*extras: str) -> list[Requirement]:
    """Return the requirements of the project and these extras, with extras of the project itself expanded."""
    listed = list(PROJECT["dependencies"])
    for extra in extras:
        listed += PROJECT["optional-dependencies"][extra]
    found = []
    for requirement in map(Requirement, listed):
        if requirement.name == "agentrt":
            found += direct_requirements(*requirement.extras)
        else:
            found.append(requirement)
    return found


def installed_closure(requirements: list[Requirement]) -> set[str]:
    """Return the names of everything that installing ``requirements`` installs on this system."""
    seen: set[tuple[str, str]] = set()
    waiting = [
        (requirement.name, extra) for requirement in requirements for extra in ("", *requirement.extras)
    ]
    while waiting:
        name, extra = waiting.pop()
        if (canonicalize_name(name), extra) in seen:
            continue
        seen.add((canonicalize_name(name), extra))
        for required in map(Requirement, metadata.requires(name) or []):
            if required.marker is None or required.marker.evaluate({"extra": extra}):
                waiting += [(required.name, inner) for inner in ("", *required.extras)]
    return {name for name, _ in seen}


def test_every_line_is_a_pin_and_nothing_else() -> None:
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8")

    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9_.-]+==[0-9][0-9A-Za-z.]*", line)] == []
    assert lines == sorted(lines, key=lambda line: canonicalize_name(line.split("==")[0]))


def closure(extra: str) -> set[str]:
    """Return what installing ``extra`` installs; skip the test where the extra is not installed."""
    try:
        return installed_closure(direct_requirements(extra))
    except metadata.PackageNotFoundError as missing:
        if extra == "dev":
            pytest.fail(f"{missing} is not installed here. Run: make test")
        pytest.skip(f"{missing.name} (extra {extra!r}) is not installed here. Run: make test docs")


@pytest.mark.parametrize("extra", EXTRAS)
def test_everything_that_is_installed_is_pinned(extra: str) -> None:
    assert closure(extra) - {canonicalize_name(name) for name in pins()} == set()


def test_nothing_is_pinned_that_nothing_needs() -> None:
    needed = set().union(*map(closure, EXTRAS))

    # Needed on Windows only.
    assert {canonicalize_name(name) for name in pins()} - needed <= {"colorama"}


@pytest.mark.parametrize("extra", EXTRAS)
def test_the_pins_satisfy_the_ranges(extra: str) -> None:
    pinned = {canonicalize_name(name): version for name, version in pins().items()}

    unsatisfied = [
        str(requirement)
        for requirement in direct_requirements(extra)
        if pinned[canonicalize_name(requirement.name)] not in requirement.specifier
    ]
    assert unsatisfied == []


def test_everything_that_is_imported_is_required() -> None:
    # A package that only comes with another one may stop coming with it.
    # The training packages need not be installed; they are imported by their own names.
    providers = metadata.packages_distributions()
    required = {
        canonicalize_name(need.name)
        for need in direct_requirements("bench", "browser", "redis", "testing", "train")
    }
    required |= {"agentrt"}

    missing = {
        f"{name} imports {top}"
        for name, path in modules()
        for top in {imported.target.split(".")[0] for imported in imports(name, path)}
        if top not in sys.stdlib_module_names
        and not {canonicalize_name(provider) for provider in providers.get(top, [top])} & required
    }
    assert missing == set()


def test_torch_is_for_training_only() -> None:
    optional = PROJECT["optional-dependencies"]

    assert [extra for extra in optional if "torch" in {need.name for need in direct_requirements(extra)}] == [
        "train"
    ]
    assert "torch" not in pins()
