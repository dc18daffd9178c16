"""`deploy/`: the image is built from what the wheel needs, and starts what there is."""

import re

from tests.house.project import PARTS, PYPROJECT, ROOT

DEPLOY = ROOT / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
UNIT = (DEPLOY / "agentrt.service").read_text(encoding="utf-8")


def test_the_image_is_built_from_what_the_wheel_needs() -> None:
    lines = (DEPLOY / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    rules = [line for line in lines if not line.startswith("#")]

    assert rules[0] == "*"
    assert {rule[1:] for rule in rules if rule.startswith("!")} == {
        *PARTS,
        *("LICENSE", "README.md", "constraints.txt", "pyproject.toml"),
    }


def test_its_extras_exist() -> None:
    (extras,) = re.findall(r'"/src\[([a-z,]+)\]"', DOCKERFILE)

    assert set(extras.split(",")) <= set(PYPROJECT["project"]["optional-dependencies"])


def test_both_start_the_server_with_options_that_it_has() -> None:
    serve = (ROOT / "agentrt" / "cli" / "serve.py").read_text(encoding="utf-8")
    (command,) = re.findall(r"^CMD \[(.*)\]$", DOCKERFILE, re.MULTILINE)

    options = [option.replace("-", "_") for option in re.findall(r'"--([a-z-]+)"', command)]
    assert options
    assert [option for option in options if f"    {option}: " not in serve] == []
    assert "ExecStart=%h/.local/bin/agentrt serve\n" in UNIT


def test_the_server_may_end_its_requests() -> None:
    serve = (ROOT / "agentrt" / "cli" / "serve.py").read_text(encoding="utf-8")
    (drain_s,) = re.findall(r"drain: Drain = (\d+)", serve)
    (stop_s,) = re.findall(r"^TimeoutStopSec=(\d+)$", UNIT, re.MULTILINE)

    assert int(stop_s) > int(drain_s)
