"""Command ``beam-spark-jobserver pack``: makes an archive of this Python with its packages, for
executors without them.

The interpreter finds its library relative to itself, so the archive works in any folder. The system
libraries must exist on the executors' machines: use the same Linux distribution, or a newer one.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import io
import json
import os
import sys
import sysconfig
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path

NAME = "environment"
"""The name of the folder into which executors unpack the archive."""
_NEEDED = ("beam_spark_executor", "beam_runner_runtime", "apache_beam", "pyarrow", "grpc")
# Leave out Spark, which is on every machine, and Python's tests. Only check top-level folders,
# because other packages can contain folders with these names.
_LEFT_OUT = (
    "site-packages/pyspark/jars",
    "site-packages/pyspark/examples",
    "test",
    "idlelib",
    "turtledemo",
)
# If the interpreter uses a shared library, set the library path, because the system doesn't search the archive.
_SCRIPT = """\
#!/bin/sh
here=$(cd "$(dirname "$0")/.." && pwd)
export LD_LIBRARY_PATH="$here/lib${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"
exec "$here/bin/{program}" "$@"
"""


class PackError(Exception):
    """Raised if the archive can't be made; the text is one sentence that says why, and what to do."""


def main(arguments: Sequence[str]) -> int:
    """Makes the archive and prints the settings to use; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="beam-spark-jobserver pack",
        description="Packs this Python and its installed packages into an archive for executors.",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        required=True,
        metavar="FILE",
        help="path of the archive, such as environment.tar.gz",
    )
    target = parser.parse_args(arguments).output.absolute()
    if not target.name.endswith((".tar.gz", ".tgz")):
        parser.error(
            f"{target.name} must end in .tar.gz: Spark chooses the archive's format by the suffix"
        )
    try:
        write_archive(target)
    except (PackError, OSError) as error:
        sys.stderr.write(f"beam-spark-jobserver: {error}\n")
        return 1
    for key, value in make_executor_properties(target).items():
        print(f"--spark-conf={key}={value}")
    return 0


def make_executor_properties(archive: Path | str) -> dict[str, str]:
    """Returns the Spark properties with which executors use an archive."""
    return {
        "spark.archives": f"{archive}#{NAME}",
        "spark.pyspark.python": f"./{NAME}/bin/python",
    }


def write_archive(target: Path) -> None:
    """Writes the archive atomically.

    Raises:
        PackError: this environment lacks something that executors need.
        OSError: the file can't be written.
    """
    _check_packages()
    part = target.with_name(f".{target.name}.part")
    try:
        with tarfile.open(part, "w:gz", compresslevel=1, dereference=True) as archive:
            for source, name in _list_archive_members():
                archive.add(source, name, filter=_filter_member)
            script = _SCRIPT.format(program=_get_python_name()).encode()
            start = tarfile.TarInfo("bin/python")
            start.mode, start.size = 0o755, len(script)
            archive.addfile(start, io.BytesIO(script))
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def _list_archive_members() -> Iterator[tuple[Path, str]]:
    """Yields each file and folder with the path that it gets in the archive."""
    yield Path(os.path.realpath(sys.executable)), f"bin/{_get_python_name()}"
    library = _find_shared_library()
    if library is not None:
        yield library, f"lib/{library.name}"
    for path in Path(sysconfig.get_path("stdlib")).iterdir():
        if path.name not in ("site-packages", "dist-packages") and path.suffix != ".a":
            yield path, f"lib/{_get_python_name()}/{path.name}"
    for folder in _find_package_folders():
        yield folder, f"lib/{_get_python_name()}/site-packages"


def _filter_member(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    inside = member.name.removeprefix(f"lib/{_get_python_name()}/")
    if inside in _LEFT_OUT or inside.startswith("config-"):
        return None
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def _check_packages() -> None:
    folders = _find_package_folders()
    for distribution in importlib.metadata.distributions(path=list(map(str, folders))):
        told = json.loads(distribution.read_text("direct_url.json") or "{}")
        if told.get("dir_info", {}).get("editable"):
            raise PackError(
                f"{distribution.name} is installed in editable mode from {told['url']},"
                " which executors don't have: install it as a wheel"
            )
    for name in _NEEDED:
        found = importlib.util.find_spec(name)
        places = [] if found is None else list(found.submodule_search_locations or ())
        if not any(Path(place).is_relative_to(one) for place in places for one in folders):
            raise PackError(
                f"executors need {name}, which isn't installed in {folders[0]}: install"
                f" it in that folder, and run the command again with {sys.executable}"
            )


def _find_package_folders() -> list[Path]:
    """Returns the folders of installed packages that this Python imports from."""
    return [Path(each) for each in dict.fromkeys(map(sysconfig.get_path, ("purelib", "platlib")))]


def _get_python_name() -> str:
    return f"python{sys.version_info.major}.{sys.version_info.minor}"


def _find_shared_library() -> Path | None:
    """Returns the shared library of the Python interpreter, if the program itself doesn't contain
    the interpreter.
    """
    name = sysconfig.get_config_var("INSTSONAME") or ""
    path = Path(sysconfig.get_config_var("LIBDIR") or "", name)
    return path if ".so" in name and path.exists() else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
