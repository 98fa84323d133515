"""SDK harnesses in containers of an image that implements Beam's contract for SDK images.

The container uses the network of the machine, because the services listen on a loopback port. The
container is removed when the harness is stopped, and when this process exits for any reason.
"""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import subprocess

from beam_runner_worker._protos import beam_runner_api_pb2
from beam_runner_worker.errors import HarnessError, UnsupportedEnvironment
from beam_runner_worker.fnapi.guarded import OutputHandler
from beam_runner_worker.fnapi.process import SeparateProcess, create_boot_arguments

_DOCKER = "docker"
_REMOVE_SECONDS = 20.0


class DockerWorker(SeparateProcess):
    """Container that runs one SDK harness.

    Args:
        environment_id: id of the environment, for error messages.
        payload: a serialized ``DockerPayload``.
        worker_id: the harness's name on its streams.
        on_output: called with every line that the container or Docker prints.

    Raises:
        UnsupportedEnvironment: Docker isn't available.
    """

    needs_preparation = True
    """True, because Docker may have to pull the image."""
    is_failure_permanent = False

    def __init__(
        self,
        environment_id: str,
        payload: bytes,
        worker_id: str,
        on_output: OutputHandler,
    ) -> None:
        self._image = beam_runner_api_pb2.DockerPayload.FromString(payload).container_image
        self._worker_id = worker_id
        self._name = f"beam-{worker_id}"
        super().__init__(f"container of the image {self._image!r}", on_output)
        self._started = False
        if not self._image:
            raise UnsupportedEnvironment(
                f"the environment {environment_id!r} is a docker container without an"
                " image; set the image as --environment_config"
            )
        if shutil.which(_DOCKER) is None:
            raise UnsupportedEnvironment(
                f"the environment {environment_id!r} needs the docker image"
                f" {self._image!r}, but the command 'docker' isn't installed on"
                f" {socket.gethostname()}; install docker, or set --environment_type to"
                " LOOPBACK, EXTERNAL or PROCESS"
            )

    def measure_activity(self) -> None:
        """Returns None, because this process can't observe the processes of the container, which are
        children of Docker's daemon.
        """

    def start(self, endpoint: str) -> None:
        """Starts the container of the SDK harness.

        Raises:
            HarnessError: Docker can't be executed.
        """
        self._started = True
        run = (_DOCKER, "run", "--rm", "--network=host", f"--name={self._name}", self._image)
        try:
            self._process.start(
                (*run, *create_boot_arguments(self._worker_id, endpoint)),
                os.environ,
                shlex.join(self._removal_command),
            )
        except OSError as error:
            raise HarnessError(f"Can't start docker: {error}") from error

    def stop(self) -> None:
        """Stops and removes the container."""
        if not self._started:
            return
        self._process.stop()
        try:
            subprocess.run(
                self._removal_command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_REMOVE_SECONDS,
                check=False,  # an exited container is already removed
            )
        except (OSError, subprocess.TimeoutExpired):
            return  # without a working Docker, the container can't be removed

    @property
    def _removal_command(self) -> tuple[str, ...]:
        return (_DOCKER, "rm", "--force", self._name)
