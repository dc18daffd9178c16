"""Names the packages: the folders at the root import as one, ``agentrt``."""

from pathlib import Path

from setuptools import find_packages, setup

PARTS = ("adapters", "bench", "examples", "runtime", "speculators")

packages = find_packages(include=["agentrt", "agentrt.*"])
if all(Path("agentrt", part).is_dir() for part in PARTS):
    # The symbolic links in agentrt/ make it one tree. An editable installation is then a path to this folder,
    # which editors and type checkers follow, unlike the import hook that setuptools writes otherwise.
    package_dir = {"": "."}
else:
    # Git could not make the links.
    package_dir = {f"agentrt.{part}": part for part in PARTS}
    packages += package_dir
    packages += [f"agentrt.{part}.{package}" for part in PARTS for package in find_packages(part)]

setup(packages=packages, package_dir=package_dir)
