"""Check that a package's source distribution and wheel contain exactly the files of its source::

python -m tools.check_release packages/urns .nox/distributions/beam_runner_urns-0.1.0
"""

from __future__ import annotations

import sys
import tarfile
import zipfile
from pathlib import Path


def find_release_problems(folder: Path, stem: Path) -> list[str]:
    """Returns the problems of the two files whose names start with ``stem``."""
    source = {
        file.relative_to(folder).as_posix()
        for file in (folder / "src").rglob("*")
        if file.is_file() and "__pycache__" not in file.parts and ".egg-info" not in str(file)
    }
    with tarfile.open(f"{stem}.tar.gz") as sdist:
        held = {name.partition("/")[2] for name in sdist.getnames()}
    with zipfile.ZipFile(f"{stem}-py3-none-any.whl") as wheel:
        modules = {f"src/{name}" for name in wheel.namelist() if ".dist-info/" not in name}
    wanted = source | {"README.md", "CHANGELOG.md", "LICENSE", "pyproject.toml"}
    return [
        *(f"the source distribution lacks {name}" for name in sorted(wanted - held)),
        *(f"the wheel lacks {name}" for name in sorted(source - modules)),
        *(f"the wheel has {name}, which is no source" for name in sorted(modules - source)),
    ]


if __name__ == "__main__":
    found = find_release_problems(Path(sys.argv[1]), Path(sys.argv[2]))
    if found:
        sys.exit("\n".join(found))
