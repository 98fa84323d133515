"""Random kills of everything that a running job consists of, from a seed."""

from __future__ import annotations

import random
import time

from beam_runner_jobservices.client import JobClient
from beam_runner_jobservices.errors import JobApiError
from lives import Lives

ENDS_A_LIFE = ("server", "java")
MOST_WORKERS = 3
"""Maximum kills of workers in a round, because a bundle has four attempts."""


class Chaos:
    """Random kills, a few in each round.

    Args:
        lives: server processes.
        seed: seed of the delays and of the killed kinds.
        kinds: kinds of processes to kill.
        most: maximum number of kills.
    """

    def __init__(self, lives: Lives, seed: int, kinds: tuple[str, ...], most: int) -> None:
        self._lives = lives
        self._random = random.Random(seed)
        self._kinds = kinds
        self._most = most

    def rage(self, job_id: str) -> None:
        """Kills until it has killed enough, or the job has ended."""
        kills = self._lives.kills
        while kills.total() < self._most:
            time.sleep(self._random.uniform(0.2, 3.0))
            kind = self._random.choice(self._kinds)
            choose = self._random.randrange(100)
            if self._has_ended(job_id):
                return
            workers = sum(count for killed, count in kills.items() if killed not in ENDS_A_LIFE)
            if kind in ENDS_A_LIFE or workers < MOST_WORKERS:
                strike(self._lives, kind, choose)

    def _has_ended(self, job_id: str) -> bool:
        try:
            with JobClient(self._lives.address) as client:
                return client.get_state(job_id).state.is_terminal
        except JobApiError:
            return False


def strike(lives: Lives, kind: str, choose: int) -> bool:
    """Kills one process, and restarts the server if necessary; returns False if no process was found."""
    if not lives.kill(kind, choose):
        return False
    if kind in ENDS_A_LIFE:
        code = lives.wait_until_gone()
        assert code == (1 if kind == "java" else -9), (code, lives.server.log[-5:])
        lives.go_on()
    return True
