from __future__ import annotations

import contextlib
import json
import logging
import socket
import threading
from collections.abc import Iterator

import pytest
from apache_beam.runners.portability.prism_runner import PrismRunnerLogFilter
from hypothesis import given
from hypothesis import strategies as st
from py4j import protocol as proto
from py4j.java_gateway import GatewayClient, GatewayParameters, JavaGateway
from py4j.protocol import Py4JError, Py4JNetworkError

from beam_runner_runtime import logs


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level


def test_json_log_lines_are_formatted(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure_logging("info", "json")
    logging.getLogger("a.b").info("first %s", "line\nsecond")
    try:
        raise ValueError("wrong")
    except ValueError:
        logging.getLogger("a").exception("failed")
    logging.getLogger("a").debug("not shown")
    first, second = (json.loads(line) for line in capsys.readouterr().err.splitlines())
    assert (first["level"], first["logger"]) == ("INFO", "a.b")
    assert first["msg"] == "first line\nsecond"
    assert first["time"].endswith("Z")
    assert "traceback" not in first
    assert first["source"]["function"] == "test_json_log_lines_are_formatted"
    assert (first["source"]["file"], type(first["source"]["line"])) == (__file__, int)
    assert second["traceback"].endswith("ValueError: wrong")


def test_json_log_lines_pass_prism_filter_of_beam(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure_logging("info", "json")
    logging.getLogger("a.b").warning("look\nhere")
    line = capsys.readouterr().err.strip()
    record = logging.makeLogRecord({"msg": line, "funcName": "log_stdout", "levelno": logging.INFO})
    assert PrismRunnerLogFilter().filter(record)
    assert (record.levelname, record.name) == ("WARNING", "PrismRunner")
    assert record.funcName == "test_json_log_lines_pass_prism_filter_of_beam"
    assert record.getMessage() == "look\nhere (logger='a.b')"


def test_text_log_lines_are_formatted(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure_logging("warning", "text")
    logging.getLogger("a").warning("look")
    logging.getLogger("a").info("not shown")
    assert capsys.readouterr().err.endswith("Z WARNING a: look\n")


def test_py4j_log_line_of_raised_error_is_hidden(capsys: pytest.CaptureFixture[str]) -> None:
    """Java can exit during a call. This was seen once in a server that was stopped during its start."""
    logs.configure_logging("info", "text")
    client = GatewayClient()
    client.deque.append(_GoneConnection())
    with pytest.raises(Py4JError):
        JavaGateway(gateway_client=client).jvm.java.lang.System.exit(0)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("level", ["debug", "info"])
def test_py4j_secret_appears_in_no_log(level: str, capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure_logging(level, "text")
    with socket.create_server(("127.0.0.1", 0)) as java:
        threading.Thread(target=_answer_once, args=(java,), daemon=True).start()
        parameters = GatewayParameters(port=java.getsockname()[1], auth_token="a-secret-of-py4j")
        assert JavaGateway(gateway_parameters=parameters).jvm is not None
        GatewayClient(gateway_parameters=parameters).send_command("c\n")
        logging.getLogger("a").debug("ours")
    shown = capsys.readouterr().err
    assert "a-secret-of-py4j" not in shown
    assert ("ours" in shown) == (level == "debug")


def _answer_once(java: socket.socket) -> None:
    connection, _ = java.accept()
    with contextlib.suppress(OSError), connection, connection.makefile("rb") as said:
        for _ in said:
            connection.sendall(b"!yp\n")


FORGED = "x\r\n2026-01-01T00:00:00.000Z INFO root: all is well\x1b[2J\u202e\u2028\x85\udcff"


def test_text_of_other_programs_cannot_forge_log_lines(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure_logging("info", "text")
    logging.getLogger("a").info("job %s", FORGED)
    try:
        raise ValueError(FORGED)
    except ValueError:
        logging.getLogger("a").exception("failed", stack_info=True)
    lines = capsys.readouterr().err.rstrip("\n").split("\n")
    assert lines[0].endswith(
        r"INFO a: job x\r\n2026-01-01T00:00:00.000Z INFO root: all is well\x1b[2J\u202e\u2028\x85\udcff"
    )
    assert lines[1].endswith("ERROR a: failed")
    assert len(lines) > 5
    assert all(line.startswith("  ") and line.isprintable() for line in lines[2:])


def test_text_of_other_programs_cannot_forge_json_log_lines(
    capsys: pytest.CaptureFixture[str],
) -> None:
    logs.configure_logging("info", "json")
    logging.getLogger("a").info("%s", FORGED)
    logging.getLogger("a").info("größe")
    first, second = capsys.readouterr().err.rstrip("\n").split("\n")
    assert first.isprintable()
    assert json.loads(first)["msg"] == FORGED
    assert "größe" in second


@given(st.text())
def test_logged_text_is_one_printable_line(text: str) -> None:
    shown = logs.escape_unprintable(text)
    assert shown.isprintable()
    assert (shown == text) == text.isprintable()


class _GoneConnection:
    """A connection to a Java process that has exited."""

    def send_command(self, command: str) -> str:
        raise Py4JNetworkError("Answer from Java side is empty", when=proto.ERROR_ON_RECEIVE)

    def close(self, reset: bool = False) -> None:
        pass


def test_suppress_import_warnings_hides_warnings_inside_block(
    capsys: pytest.CaptureFixture[str],
) -> None:
    logs.configure_logging("info", "text")
    with logs.suppress_import_warnings():
        logging.warning("kept back")
        logging.error("an error")
    logging.info("again")
    error = capsys.readouterr().err
    assert "kept back" not in error
    assert "an error" in error
    assert "again" in error


def test_suppress_import_warnings_removes_handler_added_inside_block(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    with logs.suppress_import_warnings():
        logging.warning("makes a handler for all that is logged from now on")
        assert root.handlers
    assert root.handlers == []
