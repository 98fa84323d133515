"""Command lines of ``beam-spark-jobserver`` in documents and in the files of ``deploy/``."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
COMMAND = "beam-spark-jobserver"
_BLOCK = re.compile(r"^```[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(rf"`{COMMAND} (-[^`]*)`")
_START = re.compile(rf"^\s*(?:exec |nohup |nice )?(?:\S*/)?{COMMAND} (?=[-a-z])(?!serves )(.*)$")
_SAMPLES = {"STATE_DIR": "s3://BUCKET/state", "DATA_DIR": "s3://BUCKET/data"}
"""Values of variables whose values a parser checks."""


@attrs.frozen
class CommandLine:
    """A command line: its file, and the arguments after the name of the program."""

    source: str
    arguments: tuple[str, ...]


def list_command_lines() -> list[CommandLine]:
    """Returns the command lines in documents, READMEs and files of ``deploy/``, except templates of the chart."""
    found: list[CommandLine] = []
    pages = [ROOT / "README.md", *ROOT.glob("packages/*/README.md")]
    for page in (*pages, *ROOT.glob("docs/**/*.md"), *DEPLOY.glob("**/*.md")):
        if "adr" not in page.relative_to(ROOT).parts:
            found += read_page(page.relative_to(ROOT).as_posix(), page.read_text(encoding="utf-8"))
    for script in DEPLOY.glob("**/*.sh"):
        found += _read_script(_name(script), script.read_text(encoding="utf-8"))
    for manifest in DEPLOY.glob("kubernetes/*.yaml"):
        found += read_manifests(_name(manifest), manifest.read_text(encoding="utf-8"))
    found += _read_unit(DEPLOY / "systemd" / "beam-spark.service")
    found += _read_image(DEPLOY / "docker" / "Dockerfile")
    return found


def read_page(source: str, text: str) -> Iterator[CommandLine]:
    """Yields the command lines in the code of a Markdown page."""
    for block in _BLOCK.findall(text):
        yield from _read_script(source, block)
    for line in _INLINE.findall(_BLOCK.sub("", text)):
        yield CommandLine(source, _split(line))


def read_manifests(source: str, text: str) -> Iterator[CommandLine]:
    """Yields the arguments of the containers of Deployments; Kubernetes variables get sample values."""
    for manifest in yaml.safe_load_all(text):
        if manifest["kind"] == "Deployment":
            for container in manifest["spec"]["template"]["spec"]["containers"]:
                yield CommandLine(source, tuple(map(_expand, container["args"])))


def read_containers(manifests: Sequence[Mapping[str, Any]]) -> Iterator[Any]:
    """Yields the containers of Deployments."""
    for manifest in manifests:
        if manifest["kind"] == "Deployment":
            yield from manifest["spec"]["template"]["spec"]["containers"]


def _name(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


def _read_script(source: str, text: str) -> Iterator[CommandLine]:
    for line in text.replace("\\\n", " ").splitlines():
        if found := _START.match(line):
            yield CommandLine(source, _split(found[1]))


def _read_unit(unit: Path) -> Iterator[CommandLine]:
    """Yields the command of a systemd unit with the defaults, and with each commented paragraph, of its environment file."""
    start = re.search(rf"^ExecStart=\S*/{COMMAND} (.*)$", unit.read_text(), re.MULTILINE)
    assert start is not None, unit
    text = unit.with_suffix(".env").read_text()
    defaults = dict(re.findall(r"^([A-Z_]+)=(.*)$", text, re.MULTILINE))
    for paragraph in text.split("\n\n"):
        others = dict(re.findall(r"^# ([A-Z_]+)=(.*)$", paragraph, re.MULTILINE))
        yield CommandLine(_name(unit), _split(start[1], {**defaults, **others}))


def _read_image(file: Path) -> Iterator[CommandLine]:
    command = re.search(r"^CMD (\[.*\])$", file.read_text(), re.MULTILINE)
    assert command is not None, file
    yield CommandLine(_name(file), tuple(json.loads(command[1])))


def _split(text: str, values: Mapping[str, str] = _SAMPLES) -> tuple[str, ...]:
    """Returns the words of a command line, without what follows a pipe, a redirection or ``&``."""
    words = shlex.split(_expand(text, values), comments=True)
    ends = [number for number, word in enumerate(words) if word[:1] in "|><&;"]
    return tuple(words[: ends[0]] if ends else words)


def _expand(text: str, values: Mapping[str, str] = _SAMPLES) -> str:
    """Returns the text with values in place of its variables."""
    return re.sub(
        r"\$(?:\((\w+)\)|\{(\w+)\}|(\w+))",
        lambda found: values.get(found[1] or found[2] or found[3], "sample"),
        text,
    )
