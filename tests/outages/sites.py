"""Servers with their neighbours, and the pipelines that need these."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import attrs
from job_server import JobServerProcess, job_server
from neighbours import BUCKET, Disk, Neighbour, Server, Service, Store, UserCode, Workers, can_mount
from runs import Plan
from streams import Site

BOTH = ("embedded", "LOOPBACK")
_ANY = ("begin", "midst", "end")
_LATE = ("midst", "end")
_CORES = 2
NAMES = ("data store", "state store", "one store", "disk", "service")


@attrs.frozen
class Target:
    """Service, and the jobs during its outage.

    Attributes:
        neighbour: the service.
        wanted: for each job, its place, its environments, of which one is chosen or all run, and
            its phases, of which one is chosen.
    """

    neighbour: Neighbour
    wanted: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...]

    def plans(self, rng: random.Random) -> list[Plan]:
        """Returns the jobs of one outage."""
        return [
            Plan(place, environment, rng.choice(phases))
            for place, environments, phases in self.wanted
            for environment in environments
        ]


@attrs.frozen
class Scene:
    """Running server.

    Attributes:
        server: the server.
        targets: services of the server.
        site: services of pipelines.
        folder: folder for files of the outages.
    """

    server: JobServerProcess
    targets: tuple[Target, ...]
    site: Site
    folder: Path


def existing(names: tuple[str, ...], folder: Path) -> tuple[str, ...]:
    """Returns the sites that can be made here."""
    return tuple(name for name in names if name != "disk" or can_mount(folder))


@contextmanager
def scene(name: str, placement: tuple[str, ...], outage_limit: str) -> Iterator[Scene]:
    """Starts a server with its neighbours for the time of a ``with``."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="t")))
        temporary = folder / "t"
        temporary.mkdir()
        raising = UserCode(folder / "raise")
        neighbours, flags, environment = _parts(name, folder)
        for neighbour in neighbours:
            stack.callback(neighbour.close)
        flags += (f"--outage-limit={outage_limit}", *(placement or _plain()))
        server = stack.enter_context(job_server(temporary, *flags, environment=environment))
        workers = Workers(server.processes)
        address = ""
        targets = []
        for neighbour in neighbours:
            if isinstance(neighbour, Service):
                address = neighbour.url
                targets.append(Target(raising, (("step", BOTH, ("midst",)),)))
                targets.append(Target(workers, _OF_WORKERS))
                targets.append(Target(Server(server.process), _OF_WORKERS))
            wanted = _WANTED[name]
            if placement and name == "data store":
                wanted += (("section", ("embedded",), ("begin", "midst")),)
            targets.append(Target(neighbour, wanted))
        yield Scene(server, tuple(targets), Site(address, raising.file), folder)


_OF_WORKERS = (
    ("journal", BOTH, _LATE),
    ("data", ("embedded",), _LATE),
    ("batch", ("embedded",), ("midst",)),
)
_WANTED = {
    "data store": (
        ("data", BOTH, _ANY),
        ("side input", BOTH, ("begin", "begin", "midst")),
        ("batch", ("embedded",), ("begin", "midst")),
    ),
    "state store": (
        ("journal", BOTH, _LATE),
        ("job list", ("embedded",), ("submit", "begin", "end")),
        ("batch", ("LOOPBACK",), ("begin", "midst")),
    ),
    "one store": (
        ("data", BOTH, _ANY),
        ("journal", ("embedded",), _ANY),
        ("batch", ("embedded",), ("begin", "midst")),
    ),
    "disk": (
        ("data", BOTH, _LATE),
        ("journal", ("embedded",), _ANY),
        ("batch", ("embedded",), ("midst",)),
    ),
    "service": (
        ("source", BOTH, ("midst",)),
        ("source that defers", ("embedded",), _ANY),
        ("sink", BOTH, _ANY),
    ),
}


def _plain() -> tuple[str, ...]:
    return (f"--without-spark={_CORES}",)


def _parts(
    name: str, folder: Path
) -> tuple[tuple[Neighbour, ...], tuple[str, ...], dict[str, str]]:
    """Returns the neighbours of a server, its flags, and its environment variables."""
    state = f"--state-dir={folder / 'state'}"
    if name == "disk":
        disk = Disk(folder / "small")
        return (disk,), (f"--state-dir={disk.folder / 'state'}",), {}
    if name == "service":
        return (Service(),), (state,), {}
    store = Store()
    far_state, far_data = f"--state-dir=s3://{BUCKET}/state", f"--data-dir=s3://{BUCKET}/data"
    flags = {
        "data store": (state, far_data),
        "state store": (far_state, f"--data-dir=file://{folder / 'data'}"),
        "one store": (far_state, far_data),
    }
    return (store,), flags[name], store.environment
