"""Detection of the Python packages among staged files, and their installation order, as Beam's SDK
stages them.

| staged as | content | option |
|---|---|---|
| ``requirements.txt`` | a requirements file; its packages can be staged too | ``--requirements_file`` |
| any name, with the artifact role of a requirements file | the same, for a transform of an expansion service | |
| ``extra_packages.txt`` | the names of packages, in installation order | ``--extra_package`` |
| ``workflow.tar.gz`` | the source distribution of the pipeline | ``--setup_file`` |
| ``dataflow_python_sdk.tar``, ``apache_beam*.whl`` | Beam itself | ``--sdk_location`` |
"""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Iterator
from pathlib import Path

import attrs
from beam_runner_model.staged_packages import (
    EXTRA_PACKAGES,
    OTHER_REQUIREMENTS,
    REQUIREMENTS,
    SDK_SOURCE,
    SETUP,
    WHEEL,
    is_sdk_wheel,
)

_ARCHIVES = (".tar.gz", ".tar", ".zip", WHEEL)
_PIECE = 1 << 20


@attrs.frozen
class StagedPackages:
    """Packages among the files in a folder.

    Attributes:
        folder: folder of all staged files, under their names.
        forced: packages that replace installed packages of the same name, in order.
        setup: package of the pipeline itself, or None.
    """

    folder: Path
    requirements: tuple[Path, ...] = ()
    forced: tuple[Path, ...] = ()
    setup: Path | None = None

    @classmethod
    def from_folder(cls, folder: Path) -> StagedPackages:
        """Finds the packages among the staged files in a folder. A missing folder has no packages.

        Raises:
            FileNotFoundError: A package in ``extra_packages.txt`` wasn't staged.
        """
        files = sorted(path for path in folder.glob("*") if path.is_file())
        return cls(
            folder,
            requirements=tuple(
                path
                for path in files
                if path.name == REQUIREMENTS or path.name.startswith(OTHER_REQUIREMENTS)
            ),
            forced=(
                *(path for path in files if path.name == SDK_SOURCE or is_sdk_wheel(path.name)),
                *_read_extra_packages(folder),
            ),
            setup=next((path for path in files if path.name == SETUP), None),
        )

    def __bool__(self) -> bool:
        """Returns True if any package must be installed."""
        return bool(self.requirements or self.forced or self.setup)

    def make_pip_arguments(self) -> Iterator[tuple[str, ...]]:
        """Yields the arguments of each ``pip install`` call.

        A forced package needs two calls. The first call replaces an installed package of the same
        name, without any other change. The second call installs the package's dependencies.
        """
        links = ("--find-links", str(self.folder))
        for file in self.requirements:
            yield (*links, "--requirement", str(file))
        for package in self.forced:
            yield ("--upgrade", "--force-reinstall", "--no-deps", str(package))
            yield (*links, str(package))
        if self.setup is not None:
            yield (*links, str(self.setup))

    def compute_digest(self) -> str:
        """Returns a hash of all packages. Packages with equal files from different builds have the same hash."""
        digest = hashlib.sha256()
        packages = {path for path in self.folder.glob("*") if path.name.endswith(_ARCHIVES)}
        for path in sorted({*packages, *self.requirements, *self.forced}):
            digest.update(f"{path.name}\0{_hash_content(path)}\n".encode())
        for package in self.forced:
            digest.update(f"{package.name}\n".encode())
        return digest.hexdigest()


def _read_extra_packages(folder: Path) -> Iterator[Path]:
    listing = folder / EXTRA_PACKAGES
    if not listing.is_file():
        return
    for line in listing.read_text(encoding="utf-8").splitlines():
        if name := line.strip():
            package = folder / Path(name).name
            if not package.is_file():
                raise FileNotFoundError(f"the extra package {name!r} isn't staged")
            yield package


def _hash_content(path: Path) -> str:
    """Returns the hash of a file's content; ignores the timestamps in a source distribution, which
    differ between builds.
    """
    if path.name.endswith((".tar.gz", ".tar")):
        try:
            return _hash_archive_members(path)
        except (tarfile.TarError, OSError, EOFError):
            pass  # pip reports the damaged file
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _hash_archive_members(path: Path) -> str:
    digest = hashlib.sha256()
    with tarfile.open(path) as archive:
        for member in sorted(archive.getmembers(), key=lambda one: one.name):
            digest.update(
                f"{member.name}\0{member.linkname}\0{member.mode}\0{member.size}\n".encode()
            )
            content = archive.extractfile(member) if member.isreg() else None
            while content is not None and (piece := content.read(_PIECE)):
                digest.update(piece)
    return digest.hexdigest()
