"""Data files that an overwrite of an Iceberg table replaces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from beam_spark_io.iceberg.table import IcebergFile


def list_data_files(table: Any) -> Iterator[tuple[int, Any]]:
    """Yields each data file of the current snapshot with the number of the file's partition spec."""
    from pyiceberg.manifest import ManifestContent

    snapshot = table.current_snapshot()
    for manifest in [] if snapshot is None else snapshot.manifests(table.io):
        if manifest.content is ManifestContent.DATA:
            for entry in manifest.fetch_manifest_entry(table.io):
                yield manifest.partition_spec_id, entry.data_file


def list_replaced_files(table: Any, name: str, new: Sequence[IcebergFile]) -> Iterator[Any]:
    """Yields the data files in the partitions of new files.

    Args:
        table: the loaded table.
        name: name of the table, for errors.
        new: the new files, which have the current partition spec.

    Raises:
        ValueError: The table has files of an earlier partition spec.
    """
    spec = table.spec().spec_id
    partitions = {one.file.partition for one in new}
    for file_spec, file in list_data_files(table):
        if file_spec != spec:
            raise ValueError(
                f"the table {name} has files of an earlier partition spec, whose rows can be in several"
                " partitions of the current one: rewrite the files, or use the mode 'overwrite'"
            )
        if file.partition in partitions:
            yield file


def check_partitions(table: Any, name: str) -> None:
    """Refuses a table without partitions.

    Raises:
        ValueError: The table has no partitions.
    """
    if table.spec().is_unpartitioned():
        raise ValueError(
            f"the table {name} has no partitions: use the mode 'overwrite', which replaces all rows"
        )
