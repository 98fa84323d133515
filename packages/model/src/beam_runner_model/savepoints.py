"""Record of a savepoint: a copy of a stream's state, from which another job can start."""

from __future__ import annotations

import attrs


@attrs.frozen
class Savepoint:
    """Description of a complete savepoint.

    Attributes:
        url: folder or URL of the store with the savepoint.
        job_id: ID of the stream.
        job_name: name of the stream.
        made: time of the copied state, in seconds since 1970.
        files: number of copied data files.
        size: size of the copied data files, in bytes.
    """

    url: str
    job_id: str
    job_name: str = ""
    made: float = 0.0
    files: int = 0
    size: int = 0
