"""Exactly-once publication of staged files: moves them to a table's folder. Each step can be
retried.

The files were written to a staging folder that Spark ignores, and the job has recorded their names.
Each file is moved by its name. If a file is missing in the staging folder and exists in the table,
an earlier attempt has moved it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import attrs
from beam_runner_planner.table_specs import STAGING, TableTarget

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@attrs.frozen
class StagedTableFiles:
    """Files that one attempt has written into a staging folder.

    Attributes:
        folder: the staging folder; empty if nothing was written.
        files: the paths relative to the folder.
    """

    folder: str
    files: tuple[str, ...]

    def to_bytes(self) -> bytes:
        """Encodes the record as one element of a PCollection."""
        return json.dumps(attrs.asdict(self)).encode()

    @classmethod
    def from_bytes(cls, element: bytes) -> StagedTableFiles:
        """Returns the record that `to_bytes` encoded."""
        told = json.loads(element)
        return cls(told["folder"], tuple(told["files"]))


class MissingStagedFile(RuntimeError):
    """Raised if a written file is neither in the staging folder nor in the table."""


def has_files(session: SparkSession, target: TableTarget) -> bool:
    """Returns whether the target folder already contains files, or is itself a file."""
    system, root = _open_file_system(session, target.path)
    if not system.exists(root):
        return False
    status = system.getFileStatus(root)
    return not status.isDirectory() or bool(_list_files(system, root))


def list_staged_files(session: SparkSession, folder: str) -> tuple[str, ...]:
    """Returns the data files in a folder that Spark has written, as relative paths."""
    system, root = _open_file_system(session, folder)
    return tuple(sorted(name for name in _list_files(system, root) if not _is_hidden(name)))


def discard_staged_files(session: SparkSession, folder: str) -> None:
    """Removes the files of an attempt."""
    system, root = _open_file_system(session, folder)
    system.delete(root, True)


def publish_files(session: SparkSession, target: TableTarget, staged: StagedTableFiles) -> None:
    """Moves written files to the target folder, and skips files that an earlier attempt has moved.

    Raises:
        MissingStagedFile: another process has removed a written file.
    """
    system, root = _open_file_system(session, target.path)
    _, source = _open_file_system(session, staged.folder)
    if target.mode == "overwrite":
        ours = frozenset(staged.files)
        for name in _list_files(system, root):
            if name not in ours and not name.startswith(STAGING):
                system.delete(_make_hadoop_path(session, root, name), False)
    for name in staged.files:
        _move_file(
            session,
            system,
            _make_hadoop_path(session, source, name),
            _make_hadoop_path(session, root, name),
        )
    system.create(_make_hadoop_path(session, root, "_SUCCESS"), True).close()
    waiting = source.getParent()
    assert waiting.getName().startswith(STAGING)
    system.delete(waiting, True)


def _move_file(session: SparkSession, system: Any, source: Any, target: Any) -> None:
    if not system.exists(source):
        if not system.exists(target):
            raise MissingStagedFile(
                f"the written file {source} is missing: another program has removed it"
            )
        return
    system.mkdirs(target.getParent())
    # A store without atomic rename can contain a truncated copy.
    system.delete(target, False)
    if not system.rename(source, target):
        raise OSError(f"Can't move {source} to {target}")


def _open_file_system(session: SparkSession, path: str) -> tuple[Any, Any]:
    """Returns Hadoop's file system and Hadoop's path object for a path."""
    java: Any = session.sparkContext._jvm
    root = java.org.apache.hadoop.fs.Path(path)
    return root.getFileSystem(session.sparkContext._jsc.hadoopConfiguration()), root


def _make_hadoop_path(session: SparkSession, root: Any, name: str) -> Any:
    java: Any = session.sparkContext._jvm
    return java.org.apache.hadoop.fs.Path(root, name)


def _list_files(system: Any, root: Any) -> list[str]:
    """Returns all files below a folder as relative paths, except files of unfinished jobs."""
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
