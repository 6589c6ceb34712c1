from __future__ import annotations

import asyncio
import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.server import CONFIG, Server
from tollgate import Error, Retry, Tls
from tollgate.aio import Connection
from tollgate.aio._credentials import TokenFile


def test_options_are_checked() -> None:
    with pytest.raises(ValueError, match="addresses"):
        Connection([])
    with pytest.raises(ValueError, match="token"):
        Connection("a:1", token="a", token_file="b")
    with pytest.raises(ValueError, match="deadline"):
        Connection("a:1", deadline=0)


async def test_a_stopped_server_is_skipped(redis_server: Server, name: str) -> None:
    own = Server(redis_server.folder, engine=redis_server.engine)
    addresses = [own.address, redis_server.address]
    async with Connection(addresses) as connection:
        sequence = connection.sequence(name)
        for _ in range(4):
            await sequence.next()
        await asyncio.to_thread(own.stop)
        for _ in range(50):  # more failures than the budget has retries
            await sequence.next()
        endpoints = connection._caller.transport._endpoints
        assert [endpoint.serving for endpoint in endpoints] == [False, True]
        await asyncio.to_thread(own.start)
        while not endpoints[0].serving:
            await asyncio.sleep(0.05)
    own.stop()


async def test_calls_take_turns(redis_server: Server, name: str) -> None:
    own = Server(redis_server.folder, engine=redis_server.engine)
    async with Connection([own.address, redis_server.address]) as connection:
        picked = {id(connection._caller.transport.pick()) for _ in range(4)}
        assert len(picked) == 2
    own.stop()


def test_a_token_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "token"
    token = TokenFile(path)
    with pytest.raises(FileNotFoundError):
        token()
    path.write_text("one\n")
    assert token() == "one"
    path.write_text("second\n")
    assert token() == "second"
    path.unlink()
    assert token() == "second"


CALLER = """
[[caller]]
name = "test"
token_sha256 = ["{digest}"]
namespace = "*"
allow = ["use", "read", "manage"]
"""


async def test_token_and_namespace(folder: Path, tmp_path: Path, name: str) -> None:
    token = "tg_" + "a" * 43
    digest = hashlib.sha256(token.encode()).hexdigest()
    own = Server(folder, config=CONFIG + CALLER.format(digest=digest))
    path = tmp_path / "token"
    path.write_text(token)
    try:
        async with Connection(own.address) as nobody:
            with pytest.raises(Error, match="UNAUTHENTICATED"):
                await nobody.sequence(name).next()
        async with Connection(own.address, token_file=path) as default:
            assert (await default.sequence(name).next()).first == 1
        async with Connection(own.address, token=token, namespace="acme") as acme:
            assert (await acme.sequence(name).next()).first == 1
    finally:
        own.stop()


def openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
async def test_tls_with_client_certificates(folder: Path, tmp_path: Path, name: str) -> None:
    new = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    openssl(tmp_path, *new, "-keyout", "ca.key", "-out", "ca.crt", "-subj", "/CN=authority")
    for who, names in (("server", "DNS:tollgate.test"), ("client", "DNS:client")):
        sign = ["-CA", "ca.crt", "-CAkey", "ca.key", "-addext", f"subjectAltName={names}"]
        constraint = ["-addext", "basicConstraints=critical,CA:FALSE"]
        files = ["-keyout", f"{who}.key", "-out", f"{who}.crt", "-subj", f"/CN={who}"]
        openssl(tmp_path, *new, *sign, *constraint, *files)
    tls = "\n".join(
        ["[tls]"]
        + [f'{key} = "{tmp_path / file}"' for key, file in TLS_FILES.items()]
        + ['client_auth = "required"']
    )
    own = Server(folder, config=f"{tls}\n{CONFIG}")
    try:
        ca = tmp_path / "ca.crt"
        cert, key = tmp_path / "client.crt", tmp_path / "client.key"
        mutual = Tls(ca=ca, cert=cert, key=key, server_name="tollgate.test")
        async with Connection(own.address, tls=mutual) as connection:
            assert (await connection.sequence(name).next()).first == 1
        once = Retry(attempts=1)
        for refused in (Tls(ca=ca, server_name="tollgate.test"), Tls(ca=ca, cert=cert, key=key)):
            async with Connection(own.address, tls=refused, retry=once) as connection:
                with pytest.raises(Error, match="UNAVAILABLE"):
                    await connection.sequence(name).next()
    finally:
        own.stop()


TLS_FILES = {"cert": "server.crt", "key": "server.key", "client_ca": "ca.crt"}


async def test_a_closed_connection_fails(server: Server, name: str) -> None:
    connection = Connection(server.address)
    await connection.sequence(name).next()
    await connection.close()
    with pytest.raises(Error, match="closed"):
        await connection.sequence(name).next()
    assert connection.calls == 1
