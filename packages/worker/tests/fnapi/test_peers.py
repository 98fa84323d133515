"""Tests that find the processes at both ends of a connection."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from beam_runner_worker.fnapi.peers import find_common_process

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows its sockets")


def test_connection_from_listening_process_is_identified():
    with (
        socket.create_server(("127.0.0.1", 0)) as pool,
        socket.create_server(("127.0.0.1", 0)) as other,
    ):
        port = pool.getsockname()[1]
        with socket.create_connection(other.getsockname()) as client:
            peer = f"ipv4:127.0.0.1:{client.getsockname()[1]}"
            assert find_common_process(f"localhost:{port}", peer) == os.getpid()
            assert not find_common_process(f"elsewhere:{port}", peer)
            assert not find_common_process("localhost", peer)
            assert not find_common_process(f"localhost:{port}", "unix:")
        assert not find_common_process(f"localhost:{port}", peer)


def test_connection_from_another_process_is_identified():
    with (
        socket.create_server(("127.0.0.1", 0)) as pool,
        socket.create_server(("127.0.0.1", 0)) as server,
    ):
        port = server.getsockname()[1]
        program = (
            f"import socket, sys; c = socket.create_connection(('127.0.0.1', {port}));"
            "print(c.getsockname()[1], flush=True); sys.stdin.read()"
        )
        child = subprocess.Popen(
            [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        try:
            peer_port = int(child.stdout.readline())
            assert not find_common_process(
                f"127.0.0.1:{pool.getsockname()[1]}", f"ipv4:127.0.0.1:{peer_port}"
            )
        finally:
            child.communicate()
