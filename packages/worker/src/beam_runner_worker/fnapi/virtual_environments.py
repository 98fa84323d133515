"""Cache of virtual environments with the staged packages of pipelines, which are created once per
machine.

A virtual environment inherits the packages of this interpreter, except packages that a staged
package replaces. The key of an environment is a hash of the staged packages, of this interpreter
and of the interpreter's packages. So pipelines with equal packages share an environment. If several
processes request an environment at the same time, the first process creates it, and the others
wait.

A process that uses an environment holds a shared lock until its exit, also after ``exec``. When an
environment is created, environments that were not used for 30 days are removed.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.metadata
import importlib.util
import os
import shutil
import stat
import subprocess
import sys
import sysconfig
import tempfile
import time
import venv
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from beam_runner_worker.packages import StagedPackages

CACHE_VARIABLE = "BEAM_RUNNER_CACHE_DIR"
"""Folder of workers for virtual environments with staged packages; the default is ``~/.cache``."""

_FOLDER = Path("beam-runner", "python-environments")
_READY = "ready"
_UNUSED_SECONDS = 30 * 24 * 3600.0
_OFFLINE = ("--no-index", "--no-build-isolation")
_SITES = ("site-packages", "dist-packages")


class InstallationError(Exception):
    """Error for packages that can't be installed. The reason is in the message or in pip's output."""


def get_python_with_packages(
    packages: StagedPackages, folder: Path, say: Callable[[str], None]
) -> Path:
    """Returns the interpreter of a virtual environment with the given packages, and creates the
    environment if necessary.

    Args:
        folder: folder of the environments, see :func:`find_cache_folder`.
        say: function that receives lines about the installation, including pip's output.

    Raises:
        InstallationError: pip fails, or the environment can't be created.
    """
    key = _compute_key(packages)
    place = folder / key
    lock = os.open(folder / f"{key}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    while True:
        fcntl.flock(lock, fcntl.LOCK_SH)
        if (place / _READY).exists():
            break
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / _READY).exists():
            _remove_unused_environments(folder)
            _create_environment(place, packages, say)
    os.set_inheritable(lock, True)
    os.utime(place / _READY)
    return _get_interpreter_path(place)


def find_cache_folder() -> Path:
    """Returns the folder of the virtual environments, which is in the user's cache or in a private
    temporary folder.

    Raises:
        InstallationError: Neither folder is writable.
    """
    for base in _list_base_folders():
        folder = base / _FOLDER
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            found = folder.stat()
        except OSError:
            continue
        # Check the owner, because any user who can write to the folder can run code as this user.
        if _is_owned_by_user(found) and os.access(folder, os.W_OK):
            return folder
    raise InstallationError(
        f"no folder to install packages in; set the variable {CACHE_VARIABLE} to a folder"
    )


def _list_base_folders() -> Iterator[Path]:
    named = os.environ.get(CACHE_VARIABLE)
    if named:
        yield Path(named).absolute()
        return
    with contextlib.suppress(RuntimeError):  # the user has no home folder
        yield Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    shared = Path(tempfile.gettempdir()) / f"beam-runner-{os.getuid()}"
    with contextlib.suppress(OSError):
        shared.mkdir(mode=0o700, exist_ok=True)
        # Refuse a symbolic link or another user's folder, because the owner would control the
        # content of the folder.
        found = shared.lstat()
        if stat.S_ISDIR(found.st_mode) and _is_owned_by_user(found):
            yield shared


def _is_owned_by_user(found: os.stat_result) -> bool:
    return found.st_uid == os.getuid() and not found.st_mode & stat.S_IWOTH


def _compute_key(packages: StagedPackages) -> str:
    """Returns the key of a virtual environment: a hash of all properties that must be equal to reuse
    the environment.
    """
    digest = hashlib.sha256(packages.compute_digest().encode())
    beam = importlib.metadata.version("apache-beam")
    for part in (sys.executable, sys.prefix, sys.version, beam):
        digest.update(f"{part}\n".encode())
    for site in _list_inherited_folders():
        digest.update(f"{site} {site.stat().st_mtime_ns}\n".encode())
    return digest.hexdigest()[:32]


def _list_inherited_folders() -> list[Path]:
    """Returns the package folders (``site-packages`` and ``dist-packages``) of this interpreter."""
    found = (Path(entry) for entry in sys.path if Path(entry).name in _SITES)
    return [path for path in dict.fromkeys(found) if path.is_dir()]


def _create_environment(place: Path, packages: StagedPackages, say: Callable[[str], None]) -> None:
    say(f"creating a virtual environment for the packages of the job in {place}")
    shutil.rmtree(place, ignore_errors=True)
    try:
        builder = venv.EnvBuilder(symlinks=True, with_pip=importlib.util.find_spec("pip") is None)
        builder.create(place)
        _add_inherited_packages(place)
    except (OSError, subprocess.CalledProcessError) as error:
        raise InstallationError(
            f"Can't create a virtual environment in {place}: {error}"
        ) from error
    # Use a temporary folder inside the environment, so that the files of a killed pip are removed
    # with the unfinished environment.
    temporary = place / "tmp"
    temporary.mkdir()
    for arguments in packages.make_pip_arguments():
        _install_packages(_get_interpreter_path(place), arguments, temporary, say)
    shutil.rmtree(temporary, ignore_errors=True)
    (place / _READY).touch()
    say("all packages of the job are installed")


def _add_inherited_packages(place: Path) -> None:
    """Adds the packages of this interpreter to the search path of an environment, after the
    environment's own packages.
    """
    base = {"base": str(place), "platbase": str(place)}
    own = Path(sysconfig.get_path("purelib", "venv", vars=base))
    lines = [f"import site; site.addsitedir({str(path)!r})\n" for path in _list_inherited_folders()]
    (own / "_list_inherited_folders.pth").write_text("".join(lines), encoding="utf-8")


def _get_interpreter_path(place: Path) -> Path:
    return place / "bin" / "python"


def _install_packages(
    python: Path, arguments: Sequence[str], temporary: Path, say: Callable[[str], None]
) -> None:
    """Installs staged packages with pip. Uses the package index only if dependencies aren't staged."""
    pip = (str(python), "-m", "pip", "--disable-pip-version-check", "--no-input", "install")
    env = {**os.environ, "TMPDIR": str(temporary)}
    alone = subprocess.run(
        (*pip, *_OFFLINE, *arguments),
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    if alone.returncode == 0:
        for line in alone.stdout.decode("utf-8", "replace").splitlines():
            say(line)
        return
    say("some dependencies are not staged; pip requests them from its package index")
    asking = subprocess.Popen(
        (*pip, *arguments),
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    with asking:
        assert asking.stdout is not None
        last = ""
        for raw in asking.stdout:
            line = raw.decode("utf-8", "replace").rstrip()
            say(line)
            last = line.strip() or last
    if asking.returncode != 0:
        names = ", ".join(Path(each).name for each in arguments if os.path.isfile(each))
        raise InstallationError(
            f"pip can't install {names} (exit code {asking.returncode}): {last}"
        )


def _remove_unused_environments(folder: Path) -> None:
    for ready in folder.glob(f"*/{_READY}"):
        place = ready.parent
        with contextlib.suppress(
            OSError
        ):  # the environment is in use, or another process is removing it
            if ready.stat().st_mtime > time.time() - _UNUSED_SECONDS:
                continue
            with open(folder / f"{place.name}.lock", "rb+") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                ready.unlink()
                shutil.rmtree(place, ignore_errors=True)
