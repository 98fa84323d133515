from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest
from py4j import protocol as proto
from py4j.java_gateway import GatewayClient, JavaGateway
from py4j.protocol import Py4JError, Py4JNetworkError

from beam_spark_executor import logs


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level


def test_json_lines(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("info", "json")
    logging.getLogger("a.b").info("first %s", "line\nsecond")
    try:
        raise ValueError("wrong")
    except ValueError:
        logging.getLogger("a").exception("failed")
    logging.getLogger("a").debug("not shown")
    first, second = (json.loads(line) for line in capsys.readouterr().err.splitlines())
    assert (first["level"], first["logger"]) == ("INFO", "a.b")
    assert first["message"] == "first line\nsecond"
    assert first["time"].endswith("Z")
    assert "traceback" not in first
    assert second["traceback"].endswith("ValueError: wrong")


def test_text_lines(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("warning", "text")
    logging.getLogger("a").warning("look")
    logging.getLogger("a").info("not shown")
    assert capsys.readouterr().err.endswith("Z WARNING a: look\n")


def test_what_py4j_logs_and_also_raises_is_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """As it is when Java ends while it is asked: seen once in a server that was stopped while it started."""
    logs.configure("info", "text")
    client = GatewayClient()
    client.deque.append(_GoneConnection())
    with pytest.raises(Py4JError):
        JavaGateway(gateway_client=client).jvm.java.lang.System.exit(0)
    assert capsys.readouterr().err == ""


class _GoneConnection:
    """A connection to a Java process that has ended."""

    def send_command(self, command: str) -> str:
        raise Py4JNetworkError("Answer from Java side is empty", when=proto.ERROR_ON_RECEIVE)

    def close(self, reset: bool = False) -> None:
        pass


def test_hushed_keeps_back_warnings_for_a_while(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("info", "text")
    with logs.hushed():
        logging.warning("kept back")
        logging.error("an error")
    logging.info("again")
    error = capsys.readouterr().err
    assert "kept back" not in error
    assert "an error" in error
    assert "again" in error
