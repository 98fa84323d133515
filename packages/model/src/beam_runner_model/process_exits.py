"""The exit of a process: the exit code or signal, and whether the system killed the process because
memory was short.
"""

from __future__ import annotations

import attrs

_SHELL_SIGNALS = range(129, 129 + 64)
"""Exit codes of shells and containers whose command was killed: 128 plus the signal."""
_SIGKILL = 9
_SIGNALS = {
    1: "SIGHUP",
    2: "SIGINT",
    3: "SIGQUIT",
    4: "SIGILL",
    6: "SIGABRT",
    7: "SIGBUS",
    8: "SIGFPE",
    _SIGKILL: "SIGKILL",
    11: "SIGSEGV",
    13: "SIGPIPE",
    14: "SIGALRM",
    15: "SIGTERM",
    24: "SIGXCPU",
    25: "SIGXFSZ",
    31: "SIGSYS",
}
"""Names of Linux's signals that end a process. The record can come from another system than the reader's."""


@attrs.frozen
class ProcessExit:
    """Exit of a process: the code or signal, and whether memory was short.

    Attributes:
        code: the exit code, or minus the signal that killed the process.
        lacked_memory: whether the process was killed because memory was short.
    """

    code: int
    lacked_memory: bool = False

    @property
    def text(self) -> str:
        """The predicate of a sentence about the process, such as ``was killed by SIGKILL``."""
        if self.code < 0:
            how = f"was killed by {_get_signal_name(-self.code)}"
        elif self.code in _SHELL_SIGNALS:
            how = f"exited with code {self.code}, which means {_get_signal_name(self.code - 128)}"
        else:
            how = f"exited with code {self.code}"
        if not self.lacked_memory:
            return how
        return (
            f"{how}, because the memory of the machine or container was short: keep less data in"
            " memory in user code, run fewer worker processes, or increase the memory"
        )

    @property
    def was_killed(self) -> bool:
        """Whether SIGKILL ended the process. The out-of-memory killer sends this signal."""
        return self.code in (-_SIGKILL, 128 + _SIGKILL)


def _get_signal_name(number: int) -> str:
    return _SIGNALS.get(number, f"signal {number}")
