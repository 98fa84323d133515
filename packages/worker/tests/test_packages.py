"""Tests of the selection of package files, of the arguments of pip, and of the equality of two sets."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path

import pytest
from beam_runner_model.staged_packages import has_packages
from beam_runner_model.stages import Artifact

from beam_runner_worker.packages import StagedPackages

STAGING_TO = "beam:artifact:role:staging_to:v1"


def staged(name: str, role: str = STAGING_TO) -> Artifact:
    return Artifact(role, b"", "beam:artifact:type:file:v1", b"", name, "00")


def archive(path: Path, time: int, **contents: str) -> None:
    """Returns a source distribution of files with a given modification time."""
    with (
        gzip.GzipFile(path, "wb", mtime=time) as zipped,
        tarfile.open(fileobj=zipped, mode="w") as tar,
    ):
        for name, content in contents.items():
            member = tarfile.TarInfo(name)
            member.size, member.mtime = len(content), time
            tar.addfile(member, io.BytesIO(content.encode()))


@pytest.mark.parametrize(
    ("artifact", "wanted"),
    [
        (staged("requirements.txt"), True),
        (staged("extra_packages.txt"), True),
        (staged("workflow.tar.gz"), True),
        (staged("dataflow_python_sdk.tar"), True),
        (staged("apache_beam-2.77.0-cp311-cp311-linux_x86_64.whl"), True),
        (staged("", "beam:artifact:role:pip_requirements_file:v1"), True),
        (staged("pickled_main_session"), False),
        (staged("submission_environment_dependencies.txt"), False),
        (staged("some-1.0.whl"), False),
        (staged("data.zip"), False),
    ],
    ids=lambda value: value.staged_name if isinstance(value, Artifact) else "",
)
def test_required_packages_are_listed(artifact: Artifact, wanted: bool) -> None:
    assert has_packages([artifact]) is wanted


def test_packages_are_installed_in_order_of_beam_containers(tmp_path: Path) -> None:
    for name in (
        "workflow.tar.gz",
        "b.whl",
        "a.tar.gz",
        "in_requirements.whl",
        "requirements.txt",
        "pip-requirements-3.txt",
        "dataflow_python_sdk.tar",
    ):
        (tmp_path / name).touch()
    (tmp_path / "extra_packages.txt").write_text("b.whl\na.tar.gz\n")
    packages = StagedPackages.from_folder(tmp_path)
    installed = [arguments[-1].rsplit("/", 1)[-1] for arguments in packages.make_pip_arguments()]
    assert installed == [
        "pip-requirements-3.txt",
        "requirements.txt",
        *("dataflow_python_sdk.tar", "dataflow_python_sdk.tar", "b.whl", "b.whl"),
        *("a.tar.gz", "a.tar.gz"),
        "workflow.tar.gz",
    ]


def test_staged_folder_without_packages_needs_no_installation(tmp_path: Path) -> None:
    assert not StagedPackages.from_folder(tmp_path / "nothing")
    (tmp_path / "pickled_main_session").touch()
    assert not StagedPackages.from_folder(tmp_path)


def test_extra_package_that_was_not_staged_is_reported(tmp_path: Path) -> None:
    (tmp_path / "extra_packages.txt").write_text("../gone.whl\n")
    with pytest.raises(FileNotFoundError, match="gone.whl"):
        StagedPackages.from_folder(tmp_path)


def test_equal_packages_built_at_different_times_have_same_digest(tmp_path: Path) -> None:
    digests = []
    for number, (time, code) in enumerate([(1, "x = 1"), (2, "x = 1"), (2, "x = 2")]):
        folder = tmp_path / str(number)
        folder.mkdir()
        archive(folder / "workflow.tar.gz", time, **{"setup.py": code})
        (folder / "pickled_main_session").write_text(f"of submission {number}")
        digests.append(StagedPackages.from_folder(folder).compute_digest())
    assert digests[0] == digests[1] != digests[2]


def test_files_named_by_requirements_are_part_of_package_digest(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("some\n")
    before = StagedPackages.from_folder(tmp_path).compute_digest()
    (tmp_path / "some-1.0.tar.gz").write_bytes(b"no archive at all")
    assert StagedPackages.from_folder(tmp_path).compute_digest() != before
