"""Harness of one environment: starts the environment's SDK harness, and runs the environment's
stages over the Fn API.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from functools import partial

import attrs
from beam_runner_model.stages import Environment, HarnessStage
from beam_runner_model.threads import start_helper_thread
from beam_runner_urns import environments as urns

from beam_runner_worker.errors import BundleError, HarnessError
from beam_runner_worker.fnapi.connection import SdkConnection
from beam_runner_worker.fnapi.descriptors import plan_stage
from beam_runner_worker.fnapi.launchers import Launcher, create_launcher
from beam_runner_worker.fnapi.metrics import ShortIds
from beam_runner_worker.fnapi.sampling import SdkSamples
from beam_runner_worker.fnapi.services import SdkRegistry
from beam_runner_worker.fnapi.stage import FnApiStage
from beam_runner_worker.fnapi.start_watch import ConnectionWait
from beam_runner_worker.fnapi.starting import StartDecision, StartLimits
from beam_runner_worker.log_records import LogRecord, Severity
from beam_runner_worker.ports import LogSink, SideInputReader

_METADATA_SECONDS = 30.0
_SAMPLES_SECONDS = 5.0
_GOING_SECONDS = 1.0


@attrs.frozen
class HarnessLimits:
    """Time limits for SDK harnesses, in seconds.

    Attributes:
        connect: idle time after which a starting harness is given up. A harness is idle while it
            neither runs nor waits for a core or a disk.
        unseen: time limit for the start of a harness whose processes aren't visible, for example in
            a container or on macOS.
        start: time limit for the start of any harness. This limit also replaces ``unseen`` for a
            pool's worker while the pool answers. After this time the bundle fails without another
            attempt.
        prepare: additional time for each of the other limits if packages must be installed or an
            image must be pulled.
        teardown: time limit for a closed harness to tear down its DoFns and exit.
        interrupted: replaces ``teardown`` if a bundle was still running, because its user code may
            never return.
    """

    connect: float = 60.0
    unseen: float = 300.0
    start: float = 900.0
    prepare: float = 900.0
    teardown: float = 5.0
    interrupted: float = 2.0

    def make_for_launcher(self, launcher: Launcher, *, in_a_pool: bool) -> StartLimits:
        """Returns the time limits for the start of a launcher's harness. The limits are longer for
        workers of a pool, because the runner can check the pool's health.
        """
        prepare = self.prepare if launcher.needs_preparation else 0.0
        unseen = self.start if in_a_pool else self.unseen
        return StartLimits(self.connect + prepare, unseen + prepare, self.start + prepare)


class _RunningSdk:
    """SDK harness with its connection, its launcher, and caches of the SDK's metadata."""

    def __init__(
        self,
        connection: SdkConnection,
        launcher: Launcher,
        arrival: ConnectionWait,
        *,
        sampling: bool,
    ) -> None:
        self.connection = connection
        self.launcher = launcher
        self.arrival = arrival
        self.short_ids = ShortIds(
            lambda request: connection.send_and_wait(request, _METADATA_SECONDS)
        )
        self.samples = SdkSamples(
            lambda request: connection.send_and_wait(request, _SAMPLES_SECONDS), wanted=sampling
        )
        self._is_inspected = False

    def inspect_in_background(self) -> None:
        """Starts a thread in which the launcher collects information about the harness; later calls do nothing."""
        if not self._is_inspected:
            self._is_inspected = True
            look, connection = self.launcher.inspect_harness, self.connection
            start_helper_thread(partial(look, connection), "fnapi-look")

    def has_idle_interpreter(self) -> bool | None:
        """Returns True if the interpreter of the harness has been idle recently; see :class:`Launcher`."""
        return self.launcher.has_idle_interpreter(self.connection)


@attrs.define(eq=False)
class FnApiHarness:
    """Harness for the stages of one environment; created by :meth:`FnApiServer.get_harness`.

    The SDK harness is started for the first stage, and runs all stages of the environment. If the
    SDK harness is lost, the running bundle fails, and the next bundle gets a new SDK harness.
    """

    _environment_id: str
    _environment: Environment
    _workers: SdkRegistry
    _endpoint: str
    _logs: LogSink
    _limits: HarnessLimits
    _on_external_worker: Callable[[str, str], None]
    _sampling: bool = attrs.field(kw_only=True, default=False)
    _lock: threading.Lock = attrs.field(init=False, factory=threading.Lock)
    _stages: dict[str, FnApiStage] = attrs.field(init=False, factory=dict)
    _running: _RunningSdk | None = attrs.field(init=False, default=None)
    _closed: bool = attrs.field(init=False, default=False)

    def get_stage_harness(self, spec: HarnessStage, side_inputs: SideInputReader) -> FnApiStage:
        """Returns the harness of a stage, and starts the SDK harness if necessary; see
        :class:`beam_runner_worker.ports.Harness`.

        Raises:
            UnsupportedEnvironment: The environment can't run on this machine.
            UnknownCoder: The coder of an output doesn't show where an encoded element ends.
            HarnessError: the SDK harness can't be started, or this harness is closed.
        """
        with self._lock:
            stage = self._stages.get(spec.stage_id)
            if stage is None:
                plan = plan_stage(spec, self._endpoint)
                self._workers.register_descriptor(plan.descriptor)
                stage = self._stages[spec.stage_id] = FnApiStage(
                    plan, side_inputs, self, self._logs
                )
                self._get_or_start_sdk().connection.register_descriptor(plan.descriptor)
            else:
                self._get_or_start_sdk()
            return stage

    def get_connected_sdk(self) -> _RunningSdk:
        """Returns the connected SDK harness; starts a new SDK harness if the last one was lost.

        Raises:
            HarnessError: the SDK harness didn't connect in time, or this harness is closed.
            BundleError: A dependency of the environment can't be installed, or the SDK harness
                would fail on other machines, too.
        """
        with self._lock:
            running = self._get_or_start_sdk()
        launcher, arrival = running.launcher, running.arrival
        try:
            running.connection.wait_until_connected(arrival.explain_abandoned_start)
        except HarnessError as error:
            hopeless = launcher.is_failure_permanent
            with self._lock:
                self._stop_sdk(running)
            if arrival.verdict is StartDecision.ENDLESS:
                where = f"the environment {self._environment_id}"
                raise BundleError(where, arrival.reason, str(error)) from error
            if hopeless or running.connection.describe_missing_module():
                raise self._create_preparation_error(running.connection, str(error)) from error
            raise
        running.inspect_in_background()
        return running

    @property
    def is_starting(self) -> bool:
        """Whether the SDK harness was started but hasn't connected."""
        running = self._running
        return (
            running is not None
            and running.connection.is_usable
            and not running.connection.is_connected
        )

    def _log_notice(self, text: str) -> None:
        told = f"{text}; environment {self._environment_id!r}"
        self._logs.log_records([LogRecord(Severity.NOTICE, time.time_ns() // 1_000_000, told)])

    def _create_preparation_error(self, connection: SdkConnection, trace: str) -> BundleError:
        last = [line for line in connection.last_lines if line.strip()]
        errors = [line for line in last if line.startswith("ERROR")]
        told = (errors or last or ["no log output"])[-1]
        why = connection.describe_missing_module() or told
        return BundleError(
            f"the environment {self._environment_id}",
            f"Can't prepare the environment: {why}",
            trace,
        )

    def _get_or_start_sdk(self) -> _RunningSdk:
        if self._closed:
            raise HarnessError(f"the harness of {self._environment_id!r} is closed")
        if self._running is not None and self._running.connection.is_usable:
            return self._running
        if self._running is not None:
            self._stop_sdk(self._running)
        connection = SdkConnection(
            f"sdk-{uuid.uuid4().hex}",
            self._environment_id,
            in_a_pool=self._environment.urn == urns.EXTERNAL,
        )
        launcher = create_launcher(
            self._environment_id,
            self._environment,
            connection.worker_id,
            self._logs,
            connection.last_lines.append,
            self._on_external_worker,
            lambda: connection.is_connected,
        )
        connection.explain = lambda: launcher.explain_failure(_GOING_SECONDS)
        connection.log_hint = launcher.log_hint
        arrival = ConnectionWait(
            launcher,
            self._limits.make_for_launcher(launcher, in_a_pool=connection.in_a_pool),
            self._log_notice,
        )
        self._running = _RunningSdk(connection, launcher, arrival, sampling=self._sampling)
        self._workers.add_connection(connection)
        try:
            launcher.start(self._endpoint)
        except HarnessError:
            self._stop_sdk(self._running)
            raise
        return self._running

    def close(self) -> None:
        """Stops the SDK harness after it has torn down its DoFns; see
        :class:`beam_runner_worker.ports.Harness`.

        A bundle that runs in another thread fails with HarnessError.
        """
        with self._lock:
            self._closed = True
            if self._running is not None:
                self._stop_sdk(self._running)

    def _stop_sdk(self, running: _RunningSdk) -> None:
        """Stops one SDK harness. A connected harness gets time to tear down its DoFns."""
        if self._running is running:
            self._running = None
        connection, launcher = running.connection, running.launcher
        was_there = connection.is_usable and connection.is_connected
        if was_there:
            launcher.inspect_harness(connection)
        interrupted = connection.begin_shutdown()
        if was_there:
            limits = self._limits
            launcher.wait_until_torn_down(
                limits.interrupted if interrupted else limits.teardown, connection
            )
        launcher.stop()
        connection.release_streams()
        self._workers.remove_connection(connection)
