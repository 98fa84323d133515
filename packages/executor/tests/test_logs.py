from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest

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
