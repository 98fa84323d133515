"""Settings of the job executor."""

from __future__ import annotations

import attrs
from beam_runner_driver.tuning import RetrySettings
from beam_runner_runtime.channel.place import ChannelAddress
from beam_runner_runtime.job_options import BulkMode

from beam_runner_server.job_folders import JobFolders


@attrs.frozen
class ExecutorSettings:
    """Settings with which a server runs jobs.

    Attributes:
        folders: locations of the job files.
        channel: address at which worker processes reach the server.
        retries: retry limits of failed bundles, for jobs without an option for it.
        hides_elements: whether error messages must not contain the failing element.
        bulk: whether bounded work runs as sections in separate Spark jobs, for jobs without an
            option for it.
        on_cluster: whether worker processes run on other machines than the server.
        checks_watermarks: whether a job fails if a watermark passes unprocessed data.
        keep_seconds: retention time in seconds for the state of a failed or cancelled stream; 0
            retains no state.
    """

    folders: JobFolders
    channel: ChannelAddress = attrs.field(factory=ChannelAddress)
    retries: RetrySettings = attrs.field(factory=RetrySettings)
    hides_elements: bool = False
    bulk: BulkMode = BulkMode.AUTO
    on_cluster: bool = False
    checks_watermarks: bool = False
    keep_seconds: float = 0.0
