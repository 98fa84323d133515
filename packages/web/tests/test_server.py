"""Tests of the server of the pages as a process loads it: late, and not at all without a request."""

from __future__ import annotations

import subprocess
import sys

import pytest

LATE = """
import sys, urllib.request
from beam_runner_web.server import WebServer
from beam_runner_web.settings import WebSettings

web = WebServer(WebSettings("localhost:1", port=0))
web.start()
print("jinja2" in sys.modules, "uvicorn" in sys.modules)
if sys.argv[1:] == ["request"]:
    print(urllib.request.urlopen(web.url + "healthz").status)
web.stop()
print(web._thread.is_alive())
"""


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [([], ["False False", "False"]), (["request"], ["False False", "200", "False"])],
)
def test_pages_are_loaded_by_the_first_request(arguments: list[str], lines: list[str]) -> None:
    command = [sys.executable, "-c", LATE, *arguments]
    assert subprocess.check_output(command, text=True, timeout=100).splitlines() == lines
