"""Certificates of a server and a client, signed by a test authority."""

from __future__ import annotations

import subprocess
from pathlib import Path


def make(folder: Path) -> None:
    """Writes `ca.pem`, `server.pem` and `client.pem`, each certificate with its `.key` file."""
    _openssl(
        folder,
        "req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 2 -subj /CN=tests",
    )
    (folder / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1")
    for name in ("server", "client"):
        _openssl(
            folder,
            f"req -newkey rsa:2048 -nodes -keyout {name}.key -out {name}.csr -subj /CN={name}",
        )
        _openssl(
            folder,
            f"x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out {name}.pem"
            " -days 2 -extfile names",
        )


def _openssl(folder: Path, arguments: str) -> None:
    subprocess.run(["openssl", *arguments.split()], cwd=folder, check=True, capture_output=True)
