"""Generates `src/tollgate/v1/*_pb2.py` from the protos; the build of the wheel calls it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent
PROTOS = ROOT.parent.parent / "proto"


def generate() -> None:
    """Generates the message classes and their type stubs.

    A source distribution has no protos: it contains the generated code.
    """
    if not PROTOS.is_dir():
        return
    from grpc_tools import protoc

    files = sorted(str(path.relative_to(PROTOS)) for path in PROTOS.rglob("*.proto"))
    target = ROOT / "src"
    include = Path(protoc.__file__).parent / "_proto"
    options = [f"-I{PROTOS}", f"-I{include}", f"--python_out={target}", f"--pyi_out={target}"]
    if protoc.main(["protoc", *options, *files]) != 0:
        raise SystemExit("protoc failed")


try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:
    pass
else:

    class GenerateHook(BuildHookInterface):  # type: ignore[type-arg,misc,unused-ignore]
        """Runs the generator before each build."""

        def initialize(self, version: str, build_data: dict[str, Any]) -> None:
            """Generates the code that the artifact contains."""
            generate()


if __name__ == "__main__":
    sys.exit(generate())
