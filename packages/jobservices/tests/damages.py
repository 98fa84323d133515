"""Job lists, closed or killed, with every kind of damage: each damage is harmless, reported or silent."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from contextlib import closing

import attrs
from beam_runner_model.errors import RunnerError
from beam_runner_model.jobs import JobMetrics, JobState, StateEvent
from beam_runner_storage.durable.databases import SEAL_SUFFIX

from beam_runner_jobservices.archive import Archive
from beam_runner_jobservices.error_log import JobErrors
from beam_runner_jobservices.job_file import FILE, JobFile

from .test_job_file import kept, message

SEAL = f"{FILE}{SEAL_SUFFIX}"
STATES = ("closed", "killed", "killed in a commit")
_LAST_CHANGE = 20_000
"""Approximate size of the last change in the log, in bytes."""
KINDS = ("delete", "truncate", "zero", "flip", "older", "older pair")


def write(file, dice, jobs):
    """Writes some jobs, half of which end. Returns nothing that `content` doesn't return."""
    for number in jobs:
        job = kept(f"job-{number}")
        spec = attrs.evolve(job.spec, pipeline=dice.randbytes(dice.randrange(30_000)))
        job = attrs.evolve(job, spec=spec)
        file.add_job(job)
        entries = [message(at, "text" * dice.randrange(200)) for at in range(1, 9)]
        file.add_messages(job.spec.job_id, entries, 1, JobErrors())
        running = StateEvent(JobState.RUNNING, 2.0)
        file.add_state(job.spec.job_id, running)
        if number % 2:
            done = StateEvent(JobState.DONE, 3.0)
            ended = (*job.entries, *entries, running, done)
            file.end_job(spec, Archive(spec.pipeline, ended, JobMetrics()))


def content(folder):
    """Returns the complete job list and the reported damage."""
    with closing(JobFile(folder)) as file:
        told = [*file.damage, *(["unfinished"] if file.is_unfinished else [])]
        found = {}
        for job in file.jobs:
            if not hasattr(job, "job_id"):
                found[job.spec.job_id] = job
                continue
            try:
                found[job.job_id] = (job, file.read_archive(job.job_id))
            except RunnerError as error:
                told.append(str(error))
        return found, told


def seal_lines(folder):
    """Returns the lines of the seal (checksum file) about the last change: the line of its end and
    the line of its start.
    """
    return (folder / SEAL).read_bytes().splitlines(keepends=True)


class States:
    """Folders of one job list: closed, killed, and both states before the last jobs.

    One list was killed during its last commit. The database contains this commit, but the seal
    (checksum file) doesn't record the commit as done.
    """

    def __init__(self, folder, dice):
        self.folder = folder
        with closing(JobFile(folder / "live")) as file:
            write(file, dice, range(6))
            shutil.copytree(folder / "live", folder / "older killed")
        shutil.copytree(folder / "live", folder / "older closed")
        with closing(JobFile(folder / "live")) as file:
            write(file, dice, range(6, 9))
            done, _ = seal_lines(folder / "live")
            file.add_state("job-8", StateEvent(JobState.DRAINING, 4.0))
            for name in ("killed", "killed in a commit"):
                shutil.copytree(folder / "live", folder / name)
            _, begun = seal_lines(folder / "live")
            (folder / "killed in a commit" / SEAL).write_bytes(done + begun)
            shutil.copytree(folder / "older killed", folder / "older killed in a commit")
        shutil.copytree(folder / "live", folder / "closed")
        self.whole = content(folder / "live")[0]


def damage(states, dice, folder):
    """Writes a damaged list into `folder`. Returns a description of the damage, and whether a server must report it."""
    name = dice.choice(STATES)
    shutil.copytree(states.folder / name, folder)
    files = [path for path in folder.glob(f"{FILE}*") if not path.name.endswith("-shm")]
    aim = dice.choice(files)
    kind = dice.choice(KINDS)
    older = states.folder / f"older {name}"
    if kind == "delete":
        aim.unlink()
    elif kind == "older":
        shutil.copy(older / aim.name, aim)
    elif kind == "older pair":
        # The list and its log, without the seal.
        for path in folder.glob(f"{FILE}*"):
            if not path.name.endswith("-seal"):
                path.unlink()
        for path in older.glob(f"{FILE}*"):
            if not path.name.endswith("-seal"):
                shutil.copy(path, folder)
    else:
        data = bytearray(aim.read_bytes())
        # The last change is at the end of the log. The loss of this change alone is the hardest to
        # detect.
        near = len(data) - _LAST_CHANGE if dice.random() < 0.5 else 0
        at = dice.randrange(max(0, near), len(data))
        if kind == "truncate":
            del data[at:]
        elif kind == "zero":
            length = dice.choice([1, 100, 4096])
            data[at : at + length] = bytes(len(data[at : at + length]))
        else:
            data[at] ^= 1 << dice.randrange(8)
        aim.write_bytes(data)
    return f"{name}: {kind} {aim.name}"


def run(damages, seed, folder):
    """Returns the numbers of harmless, reported and silent damages, and the names of the silent damages."""
    dice = random.Random(seed)
    states = States(folder, dice)
    for name in STATES:
        shutil.copytree(folder / name, folder / "undamaged")
        assert content(folder / "undamaged") == (states.whole, []), name
        shutil.rmtree(folder / "undamaged")
    counts, silent = Counter(), []
    for number in range(damages):
        damaged = folder / f"damaged {number}"
        what = damage(states, dice, damaged)
        found, told = content(damaged)
        if told:
            counts["told"] += 1
        elif found == states.whole:
            counts["whole"] += 1
        else:
            counts["silent"] += 1
            silent.append(f"{number} {what}")
        shutil.rmtree(damaged)
    return counts, silent
