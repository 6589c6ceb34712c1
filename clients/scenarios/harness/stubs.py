"""Python modules of the protos, generated into target/tools at the first use."""

import fcntl
import hashlib
import importlib
import shutil
import sys
from pathlib import Path

from .paths import ROOT, TOOLS

SERVICES = ["admission", "rate", "sequence", "lock", "stock", "admin"]


def _generate():
    import grpc_tools
    from grpc_tools import protoc

    included = Path(grpc_tools.__file__).parent / "_proto"
    protos = sorted((ROOT / "proto" / "tollgate" / "v1").glob("*.proto"))
    digest = hashlib.sha256(b"".join(proto.read_bytes() for proto in protos)).hexdigest()
    folder = TOOLS / f"scenario-stubs-{digest[:12]}"
    TOOLS.mkdir(parents=True, exist_ok=True)
    with open(TOOLS / "scenario-stubs.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            arguments = [f"-I{ROOT / 'proto'}", f"-I{included}",
                         f"--python_out={folder}", f"--grpc_python_out={folder}"]
            if protoc.main(["protoc", *arguments, *map(str, protos)]) != 0:
                raise RuntimeError("protoc failed")
            (folder / "complete").touch()
    sys.path.insert(0, str(folder))


_generate()
messages = {name: importlib.import_module(f"tollgate.v1.{name}_pb2") for name in SERVICES}
services = {name: importlib.import_module(f"tollgate.v1.{name}_pb2_grpc") for name in SERVICES}
