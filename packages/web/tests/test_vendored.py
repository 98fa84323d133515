from __future__ import annotations

import hashlib
import tomllib
from pathlib import Path

import beam_runner_web

STATIC = Path(beam_runner_web.__file__).parent / "html" / "static"
OUR_OWN = {"graph.js", "live.js", "log.js", "theme.js", "times.js", "web.css", "icon.svg"}


def test_vendored_files_equal_published_files() -> None:
    vendored = tomllib.loads((STATIC / "VENDOR.toml").read_text())["file"]
    for one in vendored:
        assert hashlib.sha256((STATIC / one["file"]).read_bytes()).hexdigest() == one["sha256"]
        assert one["name"] and one["version"] and one["licence"]
    named = {one["file"] for one in vendored}
    scripts = {path.name for path in STATIC.iterdir() if path.suffix in (".js", ".css", ".svg")}
    assert scripts == named | OUR_OWN


def test_vendored_browser_test_file_equals_published_file() -> None:
    folder = Path(__file__).parent / "browser"
    (one,) = tomllib.loads((folder / "VENDOR.toml").read_text())["file"]
    assert hashlib.sha256((folder / one["file"]).read_bytes()).hexdigest() == one["sha256"]


def test_vendored_files_have_licence() -> None:
    for one in tomllib.loads((STATIC / "VENDOR.toml").read_text())["file"]:
        assert (STATIC / f"{one['file'].partition('.')[0]}.LICENSE.txt").read_text()
