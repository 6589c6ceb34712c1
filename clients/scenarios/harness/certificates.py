"""Certificates and tokens, made with openssl as docs/security.md shows."""

import hashlib
import secrets
import subprocess
import tempfile
from pathlib import Path


class Certificates:
    """An authority, a certificate of the server, one of a client, and a foreign authority."""

    def __init__(self):
        self._folder = tempfile.TemporaryDirectory(prefix="scenario-certificates-")
        self.folder = Path(self._folder.name)
        self._authority("ca")
        self._authority("foreign")
        self._leaf("server", "serverAuth", "DNS:localhost,DNS:tollgate.test,IP:127.0.0.1")
        self._leaf("client", "clientAuth", "URI:spiffe://scenarios/backend")

    def file(self, name: str) -> str:
        return str(self.folder / name)

    def _request(self, name: str, *arguments: str):
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
             "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-keyout",
             self.file(f"{name}.key"), "-out", self.file(f"{name}.crt"), *arguments],
            check=True, capture_output=True)

    def _authority(self, name: str):
        self._request(name, "-subj", f"/CN={name}", "-addext",
                      "keyUsage=critical,keyCertSign,cRLSign")

    def _leaf(self, name: str, usage: str, names: str):
        self._request(name, "-CA", self.file("ca.crt"), "-CAkey", self.file("ca.key"),
                      "-subj", f"/CN={name}", "-addext", "basicConstraints=critical,CA:FALSE",
                      "-addext", f"subjectAltName={names}", "-addext",
                      f"extendedKeyUsage={usage}")

    def close(self):
        self._folder.cleanup()


class Token:
    """A token of 256 random bits and its digest."""

    def __init__(self):
        self.text = secrets.token_hex(32)
        self.digest = hashlib.sha256(self.text.encode()).hexdigest()
