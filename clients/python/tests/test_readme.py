"""Plays the README with the packaged wheel, in an empty folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import tollgate
from tests.server import Server
from tollgate import aio, blocking

LIBRARY = Path(__file__).parents[1]
README = (LIBRARY / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def shell(command: str, folder: Path) -> str:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        ["bash", "-euc", command],
        cwd=folder,
        env=environment,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the commands of the README installed the wheel."""
    folder = tmp_path_factory.mktemp("readme")
    install = blocks("sh")[0].replace("clients/python", str(LIBRARY))
    shell(install.replace("python3", sys.executable), folder)
    return folder


def test_the_wheel_has_generated_code_and_types(empty: Path) -> None:
    (wheel,) = (empty / "dist").glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    wanted = ["py.typed", "v1/admission_pb2.py", "v1/admission_pb2.pyi", "blocking/pool.py"]
    assert {f"tollgate/{name}" for name in wanted} <= names


def test_the_first_program(empty: Path, server: Server) -> None:
    program, threads = blocks("python")[:2]
    assert len(program.splitlines()) <= 15
    (empty / "first.py").write_text(program.replace("127.0.0.1:50051", server.address))
    played = blocks("console")[0]
    commands = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", played, re.MULTILINE)
    assert len(commands) == 2
    for command, documented in commands:
        assert shell(command, empty) == documented
    (empty / "threads.py").write_text(threads.replace("127.0.0.1:50051", server.address))
    assert shell(".venv/bin/python threads.py", empty) == ""


def test_the_device_backend(empty: Path, server: Server) -> None:
    example = LIBRARY / "examples" / "device_backend.py"
    assert len(example.read_text().splitlines()) <= 60
    printed = shell(f".venv/bin/python {example} {server.address}", empty).splitlines()
    assert len(printed) == 6
    assert all(line.endswith(" COMPLETED") for line in printed)


def test_every_name_of_the_features_exists() -> None:
    table = README.split("## Features")[1].split("## Permits")[0]
    for name in ("Pool", "Permit", "Worker", "RateLimiter", "Sequence", "Lock", "StockItem"):
        (row,) = re.findall(rf"^\| `{name}` \|.*\| (.*) \|$", table, re.MULTILINE)
        own = row.split(" → ")[0].split("; ")[0]
        for method in re.findall(r"`(\w+)`", own):
            assert hasattr(getattr(aio, name), method), f"aio.{name}.{method}"
            assert hasattr(getattr(blocking, name), method), f"blocking.{name}.{method}"
    for refusal in re.findall(
        r"`([A-Z]\w+)`", table.split("**A refusal")[1].split("**An error")[0]
    ):
        assert hasattr(tollgate, refusal)
