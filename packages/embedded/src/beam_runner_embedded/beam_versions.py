"""Home of all code that depends on the version of Beam.

``tools/check_versions.py`` of the repository searches for new differences when a version is
released.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apache_beam.runners import common
from apache_beam.runners.worker import operations, sdk_worker_main
from apache_beam.transforms.window import WindowFn
from apache_beam.version import __version__

VERSION = tuple(int(part) for part in __version__.split(".")[:2])
"""Major and minor version of the installed Beam SDK."""

STAGED_DIRECTORY: str = getattr(sdk_worker_main, "_STAGED_DIRECTORY", "staged")
"""Name of the folder with staged files, inside the folder of the harness. Beam 2.76 and later name it."""

CHECKS_RESULTS = VERSION >= (2, 76)
"""Whether Beam refuses strings, bytes and dicts as the results of a user's DoFn."""


def create_output_handler(
    window_fn: WindowFn,
    main: operations.ConsumerSet,
    receivers: Mapping[str | None, operations.ConsumerSet],
    *,
    check: bool,
) -> common._OutputHandler:
    """Returns Beam's handler for the results of a DoFn without batches. If ``check`` is True, the
    handler rejects results of invalid types.
    """
    arguments: tuple[Any, ...] = (window_fn, main, receivers, None, None, False, False)
    return common._OutputHandler(*arguments, *([check] if CHECKS_RESULTS else []))
