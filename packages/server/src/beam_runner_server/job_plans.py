"""Plans of new jobs: translation of the pipeline, and choice of limits and policies."""

from __future__ import annotations

import attrs
from beam_runner_driver.ledger.ledger import JobLedger
from beam_runner_driver.ledger.scheduling import make_root_outputs
from beam_runner_driver.ports import Placement
from beam_runner_driver.tuning import JobTuning, choose_job_tuning, set_retry_limits
from beam_runner_engine.scheduler.events import Start
from beam_runner_engine.scheduler.specs import Limits
from beam_runner_jobservices.errors import InvalidRequest, JobRejected
from beam_runner_jobservices.wire.pipelines import check_pipeline
from beam_runner_model.jobs import JobSpec
from beam_runner_planner.errors import InvalidPipeline, UnsupportedPipeline
from beam_runner_planner.plan import JobPlan
from beam_runner_planner.translate import plan_job
from beam_runner_runtime.clock import ProcessingClock
from beam_runner_runtime.job_options import RunnerOptions, parse_runner_options

from beam_runner_server.executor_settings import ExecutorSettings
from beam_runner_server.option_checks import parse_options
from beam_runner_server.quarantine_check import check_quarantine, make_isolation_rules


@attrs.frozen
class PlannedJob:
    """Plan of a new job, with its limits, policies and parsed options."""

    plan: JobPlan
    tuning: JobTuning
    options: RunnerOptions

    def create_initial_ledger(self) -> JobLedger:
        """Returns the ledger (committed state) of a new job, with the initial data of its Impulses."""
        plan, tuning = self.plan, self.tuning
        ledger = JobLedger(plan, tuning.shards, tuning.limits, tuning.policy, tuning.section_policy)
        # The clock of a TestStream starts at 0, because tests set their timers relative to it.
        start = 0 if plan.sets_clock else ProcessingClock().now()
        ledger.apply_journal_entry(Start(start, make_root_outputs(plan)))
        return ledger


@attrs.frozen
class JobPlanner:
    """Translates the pipelines of new jobs, and chooses their limits and policies.

    Attributes:
        placement: system that starts and stops the worker processes.
    """

    placement: Placement
    settings: ExecutorSettings

    def plan_job(self, job: JobSpec) -> PlannedJob:
        """Translates the pipeline of a new job, and chooses the limits and policies of the job.

        Raises:
            JobRejected: the pipeline is malformed or uses an unsupported feature, or an option has
                an invalid value.
        """
        plan = _translate_pipeline(job)
        settings, options = self.settings, parse_options(job, parse_runner_options)
        tuning = choose_job_tuning(
            plan,
            self.placement.cores,
            settings.retries,
            options,
            settings.bulk,
            shares_data=settings.folders.spec.accepts_files,
            on_cluster=settings.on_cluster,
        )
        check_quarantine(job, plan, tuning.limits.user_attempts)
        return PlannedJob(plan, tuning, options)

    def choose_retry_limits(self, ledger: JobLedger, job: JobSpec) -> Limits:
        """Returns the retry limits for a job that another version of the server started."""
        options = parse_options(job, parse_runner_options)
        return set_retry_limits(ledger.limits, ledger.plan, self.settings.retries, options)

    def check_tables(self, plan: JobPlan) -> None:
        """Checks that the placement can read and write the tables of a job.

        Raises:
            JobRejected: the placement can't.
        """
        tables = [s.spec.name for s in plan.stages.values() if s.table is not None]
        if tables and not self.placement.has_tables:
            raise JobRejected(
                f"the transform {tables[0]!r} needs Spark to read or write a table, and"
                " this server runs jobs without Spark: submit the job to a server with"
                " Spark"
            )


def _translate_pipeline(job: JobSpec) -> JobPlan:
    try:
        # The call of Prepare has checked the pipeline, but possibly in an earlier version of the server.
        check_pipeline(job.pipeline)
        return plan_job(job, make_isolation_rules(job))
    except (InvalidRequest, InvalidPipeline) as error:
        raise JobRejected(str(error), unsupported=False) from error
    except UnsupportedPipeline as error:
        raise JobRejected(str(error)) from error
