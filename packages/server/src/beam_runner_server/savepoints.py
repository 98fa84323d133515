"""SavepointManager of streams, and jobs that start from a savepoint."""

from __future__ import annotations

import time
from collections.abc import Callable

from beam_runner_driver.ledger.job_folder import JobFolder
from beam_runner_driver.ledger.ledger import JobLedger
from beam_runner_driver.ledger.recovery import read_ledger
from beam_runner_driver.updates.savepoint_files import (
    SavepointContents,
    SavepointError,
    capture_savepoint_contents,
    fetch_data_files,
    read_savepoint,
    write_savepoint,
)
from beam_runner_driver.updates.succession import (
    SuccessorJob,
    compare_with_ledger,
    make_next_ledger,
)
from beam_runner_engine.scheduler.refusals import TransferRefused
from beam_runner_jobservices.errors import JobRejected
from beam_runner_jobservices.ports import JobReporter
from beam_runner_model.jobs import JobInfo, JobSpec, JobState
from beam_runner_model.savepoints import Savepoint
from beam_runner_runtime.update_options import SAVEPOINT, UpdateOptions
from beam_runner_storage.errors import StorageError
from beam_runner_storage.journal.errors import JournalError
from beam_runner_storage.journal.store import JournalStore
from beam_runner_storage.unavailable import ExternalSystemUnavailable

from beam_runner_server.captures import capture_running_job
from beam_runner_server.job_folders import JobFolders
from beam_runner_server.job_plans import JobPlanner
from beam_runner_server.started_jobs import StartedJob
from beam_runner_server.store_urls import parse_store_url
from beam_runner_server.update_messages import list_update_refusals, make_update_message_lines


class SavepointManager:
    """Creates savepoints, and starts jobs from savepoints. Thread-safe.

    Args:
        find_started: returns a running job; None if this server doesn't run the job.
    """

    def __init__(
        self,
        store: JournalStore,
        folders: JobFolders,
        planner: JobPlanner,
        find_started: Callable[[str], StartedJob | None],
    ) -> None:
        self._store = store
        self._folders = folders
        self._planner = planner
        self._find_started = find_started

    def make_savepoint(self, job: JobInfo, url: str) -> Savepoint:
        """Copies the committed state of a stream to a folder or store. A running stream continues.

        Reads and writes the complete state of the stream, in the calling thread.

        Raises:
            NotReady: the stream doesn't answer in time.
            JobRejected: the job has no state, isn't a stream, or the URL can't be used.
        """
        parse_store_url(url, "the URL of the savepoint")
        files = self._folders.get_job_folder(self._store.find_lineage(job.job_id).owner)
        about = Savepoint(url, job.job_id, job.job_name, time.time())
        started = self._find_started(job.job_id)
        try:
            captured = None if started is None else capture_running_job(started.running)
            if captured is None:
                return write_savepoint(self._capture_ended_job(job), files.spec, about)
            try:
                return write_savepoint(captured, files.spec, about)
            finally:
                captured.release_files()
        except (StorageError, ExternalSystemUnavailable) as error:
            raise JobRejected(
                f"Can't make a savepoint of job {job.job_id}: {error}", unsupported=False
            ) from error
        finally:
            files.close()

    def start_job(
        self, job: JobSpec, reporter: JobReporter, update: UpdateOptions, files: JobFolder
    ) -> JobLedger | None:
        """Returns the ledger (committed state) of a job that continues from a savepoint; None if
        the request is only a check.

        Raises:
            JobRejected: the savepoint can't be read, or the pipeline can't continue with it.
        """
        parse_store_url(update.savepoint, f"--{SAVEPOINT.name}")
        planned = self._planner.plan_job(job)
        self._planner.check_tables(planned.plan)
        next_job = SuccessorJob(
            planned.plan, planned.tuning, update.wishes, planned.options.key_shards
        )
        try:
            savepoint = read_savepoint(update.savepoint)
            comparison = compare_with_ledger(savepoint.ledger, next_job, is_savepoint=True)
            reporter.report_messages(make_update_message_lines(comparison.report))
            if comparison.report.is_refused:
                raise _make_rejection(update.savepoint, list_update_refusals(comparison.report))
            if update.is_check:
                return None
            ledger = make_next_ledger(
                savepoint.ledger, next_job, comparison.correspondence, savepoint.rename_file
            )
            fetch_data_files(savepoint, ledger.list_needed_files(), files.spec)
        except (StorageError, ExternalSystemUnavailable, TransferRefused) as error:
            raise _make_rejection(update.savepoint, str(error)) from error
        self._store.get_journal(job.job_id).store_snapshot(ledger.encode_snapshot())
        return ledger

    def _capture_ended_job(self, job: JobInfo) -> SavepointContents:
        if job.state not in (JobState.FAILED, JobState.CANCELLED):
            raise JobRejected(
                f"job {job.job_id} is {job.state.name}: a savepoint needs a running, failed or"
                " cancelled stream",
                unsupported=False,
            )
        journal = self._store.get_journal(job.job_id)
        try:
            if not journal.exists:
                raise JobRejected(
                    f"the server has no state of job {job.job_id}: it keeps the state of failed "
                    "and cancelled streams for the time that --keep-failed-streams sets",
                    unsupported=False,
                )
            ledger = read_ledger(journal)
        except JournalError as error:
            raise SavepointError(str(error)) from error
        return capture_savepoint_contents(ledger)


def _make_rejection(url: str, reason: str) -> JobRejected:
    return JobRejected(f"Can't start from --{SAVEPOINT.name}={url}: {reason}", unsupported=False)
