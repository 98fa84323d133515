"""Each package can be imported from a zip without folder entries, like a wheel or a Spark archive, and
declares its types.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

PACKAGES = (
    "beam_runner_data",
    "beam_runner_driver",
    "beam_runner_embedded",
    "beam_runner_engine",
    "beam_runner_jobservices",
    "beam_runner_model",
    "beam_runner_planner",
    "beam_runner_runtime",
    "beam_runner_server",
    "beam_runner_storage",
    "beam_runner_urns",
    "beam_runner_worker",
    "beam_spark_executor",
    "beam_spark_io",
)
IMPORT = "import sys; sys.path.insert(0, sys.argv[1]); module = __import__(sys.argv[2]); print(module.__file__)"


def folder_of(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    assert spec is not None and spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0])


@pytest.mark.parametrize("package", PACKAGES)
def test_package_is_imported_from_a_zip_file(package: str, tmp_path: Path) -> None:
    folder = folder_of(package)
    archive = tmp_path / "packages.zip"
    with zipfile.ZipFile(archive, "w") as zipped:
        for file in folder.rglob("*.py"):
            zipped.write(file, file.relative_to(folder.parent))
    command = [sys.executable, "-I", "-c", IMPORT, str(archive), package]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert found.stdout.startswith(str(archive))


@pytest.mark.parametrize("package", PACKAGES)
def test_package_declares_its_type_information(package: str) -> None:
    assert (folder_of(package) / "py.typed").exists()
