"""`deploy/`: the image is built from what the wheel needs, and all start what there is."""

import re
from typing import Any

import pytest
import yaml

from tests.house.project import PARTS, PYPROJECT, ROOT, python

DEPLOY = ROOT / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
UNIT = (DEPLOY / "agentrt.service").read_text(encoding="utf-8")


def test_the_image_is_built_from_what_the_wheel_needs() -> None:
    lines = (DEPLOY / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    rules = [line for line in lines if not line.startswith("#")]

    assert rules[0] == "*"
    assert {rule[1:] for rule in rules if rule.startswith("!")} == {
        *PARTS,
        *("LICENSE", "README.md", "constraints.txt", "pyproject.toml", "setup.py"),
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


def test_the_unit_is_in_a_user_namespace() -> None:
    """Without one a user's service manager, which has no privileges, ignores the settings of mounts."""
    mounts = re.findall(r"^(?:ProtectSystem|ProtectHome|ReadWritePaths|PrivateTmp)=", UNIT, re.MULTILINE)

    assert len(mounts) == 4
    assert "\nPrivateUsers=yes\n" in UNIT


@pytest.mark.slow
def test_an_error_that_the_server_reports_does_not_start_it_again() -> None:
    (status,) = re.findall(r"^RestartPreventExitStatus=(\d+)$", UNIT, re.MULTILINE)

    done = python("-m", "agentrt", "serve", "--model", "missing.gguf", timeout=100)
    assert "there is no model" in done.stderr
    assert done.returncode == int(status)


def command_of(service: str) -> str:
    return " ".join(COMPOSE["services"][service]["command"])


@pytest.mark.parametrize(
    ("service", "program"),
    [("gateway", "agentrt/cli/gateway.py"), ("agent", "examples/cluster_gateway.py")],
)
def test_the_cluster_starts_programs_with_options_that_they_have(service: str, program: str) -> None:
    text = (ROOT / program).read_text(encoding="utf-8")
    options = [option.replace("-", "_") for option in re.findall(r"--([a-z-]+)", command_of(service))]

    assert len(options) >= 2
    assert [option for option in options if f"    {option}: " not in text] == []


def test_the_cluster_is_of_one_piece() -> None:
    services = COMPOSE["services"]

    assert services["gateway"]["deploy"]["replicas"] == 3
    hosts = {
        host for name in services for host in re.findall(r"(?:http|redis)://([a-z]+):", command_of(name))
    }
    assert hosts == {"vllm", "redis", "gateway"} == set(services) - {"agent"}
    needed = {other for service in services.values() for other in service.get("depends_on", ())}
    mounted = {mount.partition(":")[0] for each in services.values() for mount in each.get("volumes", ())}
    assert needed <= set(services)
    assert mounted == set(COMPOSE["volumes"])
    assert "agentrt.examples.cluster_gateway" in command_of("agent")
    (port,) = re.findall(r"--port (\d+)", command_of("gateway"))
    assert f"http://127.0.0.1:{port}/health" in DOCKERFILE
    assert f"http://gateway:{port}/v1" in command_of("agent")
    (extras,) = re.findall(r'"/src\[([a-z,]+)\]"', DOCKERFILE)
    assert {"openai", "redis", "serve"} <= set(extras.split(",")), "what its programs need"
