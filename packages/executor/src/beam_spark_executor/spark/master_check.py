"""Check that a Spark master or a Kubernetes API is reachable. Without this check, Spark would try
to connect for minutes.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from urllib.parse import urlsplit

from beam_spark_executor.spark.settings import SparkUnavailable

_CONNECT_SECONDS = 4.0
_PROXIES = {"HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"}
_PORTS = {"https": 443, "http": 80}


def check_master_reachable(
    master: str, environment: Mapping[str, str] = os.environ, seconds: float = _CONNECT_SECONDS
) -> None:
    """Raises an error if no master of a cluster accepts connections.

    Args:
        master: a valid Spark master URL.
        environment: the environment variables, which can name a proxy for Kubernetes.
        seconds: the limit for all attempts.

    Raises:
        SparkUnavailable: the text names the address and the reason.
    """
    addresses = _list_addresses(master)
    if not addresses or (master.startswith("k8s") and _PROXIES & environment.keys()):
        return
    reasons = []
    for host, port in addresses:
        try:
            with socket.create_connection((host, port), seconds / len(addresses)):
                return
        except OSError as error:
            reasons.append(f"{host}:{port}: {error.strerror or error}")
    what = "Kubernetes API" if master.startswith("k8s") else "Spark master"
    raise SparkUnavailable(
        f"No {what} responds at {master} ({'; '.join(reasons)}): check that it runs, that the "
        "address"
        " is correct, and that no firewall is between this machine and the address."
    )


def _list_addresses(master: str) -> list[tuple[str, int]]:
    """Returns the addresses of a master; none for a master without an address, such as yarn."""
    if master.startswith("spark://"):
        pairs = re.findall(r"([^/\s:,]+):(\d+)", master.removeprefix("spark://"))
        return [(host, int(port)) for host, port in pairs]
    if master.startswith("k8s://"):
        text = master.removeprefix("k8s://")
        parts = urlsplit(text if "://" in text else f"https://{text}")
        try:
            return [(parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 443))]
        except ValueError:  # not a port
            return []
    return []
