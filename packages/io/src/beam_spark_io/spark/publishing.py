"""How files that a job has written become those of a table: each once, however often it is tried.

They were written to a folder beside, of which Spark takes no notice, and the job has on record which they
are. Each is moved by its name; that it is gone there and is here means that it was moved before.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import attrs
from beam_runner_planner.table_specs import STAGING, TableTarget

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@attrs.frozen
class Staged:
    """What was written.

    Attributes:
        folder: where it is; empty if nothing was to be.
        files: relative to that.
    """

    folder: str
    files: tuple[str, ...]

    def to_bytes(self) -> bytes:
        """As an element."""
        return json.dumps(attrs.asdict(self)).encode()

    @classmethod
    def from_bytes(cls, element: bytes) -> Staged:
        """What `to_bytes` gave."""
        told = json.loads(element)
        return cls(told["folder"], tuple(told["files"]))


class LostFile(RuntimeError):
    """A file that was written is neither where it was nor where it goes."""


def is_there(session: SparkSession, target: TableTarget) -> bool:
    """Whether a table has files already, or is one."""
    system, root = _opened(session, target.path)
    if not system.exists(root):
        return False
    status = system.getFileStatus(root)
    return not status.isDirectory() or bool(_files(system, root))


def staged_files(session: SparkSession, folder: str) -> tuple[str, ...]:
    """The files of rows in a folder that Spark has written, relative to it."""
    system, root = _opened(session, folder)
    return tuple(sorted(name for name in _files(system, root) if not _is_hidden(name)))


def discard(session: SparkSession, folder: str) -> None:
    """Removes what an attempt has written."""
    system, root = _opened(session, folder)
    system.delete(root, True)


def publish(session: SparkSession, target: TableTarget, staged: Staged) -> None:
    """Moves what was written to where it was meant for; whatever was done of that before counts.

    Raises:
        LostFile: somebody has removed what was written.
    """
    system, root = _opened(session, target.path)
    _, source = _opened(session, staged.folder)
    if target.mode == "overwrite":
        ours = frozenset(staged.files)
        for name in _files(system, root):
            if name not in ours and not name.startswith(STAGING):
                system.delete(_path(session, root, name), False)
    for name in staged.files:
        _move(session, system, _path(session, source, name), _path(session, root, name))
    system.create(_path(session, root, "_SUCCESS"), True).close()
    waiting = source.getParent()
    assert waiting.getName().startswith(STAGING)
    system.delete(waiting, True)


def _move(session: SparkSession, system: Any, source: Any, target: Any) -> None:
    if not system.exists(source):
        if not system.exists(target):
            raise LostFile(f"{source} was written, and is gone: somebody has removed it")
        return
    system.mkdirs(target.getParent())
    # Where a store can't rename, a copy may have been cut off.
    system.delete(target, False)
    if not system.rename(source, target):
        raise OSError(f"{source} can't be moved to {target}")


def _opened(session: SparkSession, path: str) -> tuple[Any, Any]:
    """The file system of a path, and the path."""
    java: Any = session.sparkContext._jvm
    root = java.org.apache.hadoop.fs.Path(path)
    return root.getFileSystem(session.sparkContext._jsc.hadoopConfiguration()), root


def _path(session: SparkSession, root: Any, name: str) -> Any:
    java: Any = session.sparkContext._jvm
    return java.org.apache.hadoop.fs.Path(root, name)


def _files(system: Any, root: Any) -> list[str]:
    """All files below a folder, relative to it, but for those of jobs that are not done."""
    base = system.makeQualified(root).toString().rstrip("/") + "/"
    if not system.exists(root):
        return []
    found, files = [], system.listFiles(root, True)
    while files.hasNext():
        name = files.next().getPath().toString().removeprefix(base)
        if not name.startswith(STAGING):
            found.append(name)
    return found


def _is_hidden(name: str) -> bool:
    return any(part.startswith(("_", ".")) and "=" not in part for part in name.split("/"))
