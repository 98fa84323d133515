"""Tests of the setup of a job in its process: options, staged files, the main session and plugins."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.internal import cloudpickle_pickler, pickler
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.value_provider import RuntimeValueProvider
from beam_runner_model.stages import Artifact, Environment, JobContext
from beam_runner_worker.errors import BundleError, HarnessError
from mini_runner import Logs

from beam_runner_embedded.harness import EmbeddedHarness
from beam_runner_embedded.setup import ProcessSetup


class Files:
    """Artifacts in memory."""

    def __init__(self, **files: bytes) -> None:
        self.by_hash = {hashlib.sha256(data).hexdigest(): data for data in files.values()}

    def read_artifact(self, sha256: str) -> Iterator[bytes]:
        data = self.by_hash[sha256]
        for start in range(0, len(data), 10):
            yield data[start : start + 10]


def artifact(name: str, data: bytes) -> Artifact:
    return Artifact("role", b"", "type", b"", name, hashlib.sha256(data).hexdigest())


def job_with(*artifacts: Artifact, **options: Any) -> JobContext:
    environment = Environment("beam:env:embedded_python:v1", b"", artifacts)
    return JobContext("job-1", "my job", json.dumps(options), {"env": environment})


def set_up(job: JobContext, files: Files | None = None) -> ProcessSetup:
    return ProcessSetup(job, files or Files(), Logs())


def staged(setup: ProcessSetup) -> Path:
    (entry,) = [entry for entry in sys.path if entry.startswith(setup._directory)]
    return Path(entry)


def test_pipeline_options_with_and_without_urns_are_parsed() -> None:
    job = job_with(**{"beam:option:pickle_library:v1": "cloudpickle", "job_name": "j", "my": 7})
    setup = set_up(job)
    assert setup.options.view_as(beam.options.pipeline_options.SetupOptions).pickle_library
    assert RuntimeValueProvider.get_value("my", int, 0) == 7
    assert FileSystems._pipeline_options is setup.options
    assert pickler.is_currently_cloudpickle()
    setup.close()


def test_missing_pipeline_options_are_accepted() -> None:
    set_up(JobContext("job", "job", "", {})).close()


def test_staged_files_get_safe_names() -> None:
    names = ["data.txt", "../../evil", "/etc/passwd", "..", "", "a/b", "nul\0name"]
    contents = {f"f{i}": b"content of %d" % i for i in range(len(names))}
    wanted = [artifact(n, d) for n, d in zip(names, contents.values(), strict=True)]
    setup = set_up(job_with(*wanted), Files(**contents))
    directory = staged(setup)
    assert sorted(os.listdir(directory)) == sorted(["data.txt", *(a.sha256 for a in wanted[1:])])
    assert (directory / "data.txt").read_bytes() == b"content of 0"
    assert directory.stat().st_mode & 0o077 == 0 or directory.parent.stat().st_mode & 0o077 == 0
    setup.close()
    assert not directory.exists()
    assert str(directory) not in sys.path


def test_staged_modules_can_be_imported() -> None:
    source = b"ANSWER = 42\n"
    setup = set_up(job_with(artifact("staged_answer.py", source)), Files(a=source))
    import staged_answer

    assert staged_answer.ANSWER == 42
    setup.close()
    del sys.modules["staged_answer"]


def test_missing_and_damaged_staged_files_are_reported() -> None:
    with pytest.raises(HarnessError, match="'data.txt'.*is missing"):
        set_up(job_with(artifact("data.txt", b"x")))
    files = Files()
    files.by_hash[hashlib.sha256(b"x").hexdigest()] = b"y"
    with pytest.raises(HarnessError, match="unexpected content"):
        set_up(job_with(artifact("data.txt", b"x")), files)
    assert not any("beam-embedded-" in entry for entry in sys.path)


class Celsius:
    """A type with a custom coder, registered in the main module of a pipeline."""

    def __init__(self, degrees: int) -> None:
        self.degrees = degrees


class CelsiusCoder(beam.coders.Coder):
    def encode(self, value: Celsius) -> bytes:
        return b"%d" % value.degrees

    def decode(self, encoded: bytes) -> Celsius:
        return Celsius(int(encoded))


def test_main_session_is_loaded(tmp_path: Path) -> None:
    beam.coders.registry.register_coder(Celsius, CelsiusCoder)
    cloudpickle_pickler.dump_session(str(tmp_path / "session"))
    session = (tmp_path / "session").read_bytes()
    del beam.coders.registry._coders[Celsius]
    assert not isinstance(beam.coders.registry.get_coder(Celsius), CelsiusCoder)
    setup = set_up(job_with(artifact("pickled_main_session", session)), Files(a=session))
    assert isinstance(beam.coders.registry.get_coder(Celsius), CelsiusCoder)
    setup.close()
    del beam.coders.registry._coders[Celsius]


def test_unloadable_main_session_is_reported() -> None:
    session = b"cno_such_module_anywhere\nthing\n."
    job = job_with(artifact("pickled_main_session", session))
    with pytest.raises(BundleError, match="No module named 'no_such_module_anywhere'") as failed:
        set_up(job, Files(a=session))
    assert failed.value.transform == "the main session of job my job"
    assert "Traceback" in failed.value.trace


def test_job_has_separate_main_module() -> None:
    before = sys.modules["__main__"]
    setup = set_up(job_with())
    assert sys.modules["__main__"] is not before
    setup.close()
    assert sys.modules["__main__"] is before


def test_beam_plugins_are_imported_at_job_setup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_plugin.py").write_text("class Thing:\n    pass\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    set_up(job_with(beam_plugins=["my_plugin.Thing"])).close()
    assert "my_plugin" in sys.modules


def test_job_setup_close_is_idempotent_and_leaves_no_log_handler() -> None:
    handlers, level = list(logging.getLogger().handlers), logging.getLogger().level
    harness = EmbeddedHarness(job_with(), Files(), Logs())
    assert len(logging.getLogger().handlers) == len(handlers) + 1
    harness.close()
    harness.close()
    assert logging.getLogger().handlers == handlers
    assert logging.getLogger().level == level
