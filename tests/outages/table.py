"""Table of outages and of job outcomes."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

import attrs
from runs import BOUNDED

_LENGTHS = ((31.0, "up to 30 s"), (301.0, "to 5 min"), (float("inf"), "longer"))
_HEADS = ("neighbour", "kind", "place", "environment", "on")


@attrs.frozen
class Row:
    """Job in an outage.

    Attributes:
        seed: seed of the session.
        site: name of the server with its services.
        number: number of the outage at this site.
        on: system that runs the worker processes.
        neighbour: unavailable service.
        kind: kind of the outage.
        seconds: duration of the outage.
        counts_absence: whether attempts that met the outage count as failed.
        is_told: whether the job reported the service's name during the outage.
        names_neighbour: whether the error of a failed job names the service.
        result: a `runs.Result`.
    """

    seed: int
    site: str
    number: int
    on: str
    neighbour: str
    kind: str
    seconds: float
    counts_absence: bool
    is_told: bool
    names_neighbour: bool
    result: dict[str, Any]

    @classmethod
    def of(cls, line: str) -> Row:
        """Returns the row of a line of JSON."""
        return cls(**json.loads(line))

    @property
    def outage(self) -> tuple[int, str, int, str]:
        """Identifier of the outage, equal for all rows of the outage."""
        return (self.seed, self.site, self.number, self.on)

    @property
    def outcome(self) -> str:
        """Outcome of the job in a few words."""
        result = self.result
        if result["outcome"] == "inexact":
            counts = ("lost", "doubled", "wrong")
            return ", ".join(f"{result[name]} {name}" for name in counts if result[name])
        if self.counts_absence and result["outcome"] == "exact":
            return f"exact, but {result['attempts_failed']} attempts counted"
        if result["outcome"] == "FAILED" and self.names_neighbour:
            return "FAILED, names the neighbour"
        return str(result["outcome"])

    def __str__(self) -> str:
        result = self.result
        words = [f"{self.site} {self.number}: {self.neighbour}, {self.kind}, {self.seconds:g} s;"]
        words += [result["place"], result["environment"], result["phase"], "->", self.outcome]
        words.append(f"({result['given']} given, on after {result['seconds_to_go_on']} s)")
        if not is_right(self):
            words.append(result["detail"])
        return " ".join(words)


def is_right(row: Row) -> bool:
    """Returns True if a job continued with an exact result, or is a batch that failed with the service's name."""
    if row.result["place"] in BOUNDED and row.outcome == "FAILED, names the neighbour":
        return True
    return row.outcome == "exact"


def page(rows: Iterable[Row]) -> str:
    """Returns the table in Markdown."""
    cells: defaultdict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
    lengths: defaultdict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
    for row in rows:
        result = row.result
        key = (row.neighbour, row.kind, result["place"], result["environment"], row.on)
        cells[key][row.outcome] += 1
        lengths[key][_length(row.seconds)] += 1
    names = [name for _, name in _LENGTHS]
    lines = [_line((*_HEADS, *names, "outcome")), _line(["---"] * (len(_HEADS) + len(names) + 1))]
    for key in sorted(cells):
        counts = [str(lengths[key][name] or "") for name in names]
        outcomes = "; ".join(f"{count} {text}" for text, count in cells[key].most_common())
        lines.append(_line((*key, *counts, outcomes)))
    return "\n".join(lines) + "\n"


def summary(rows: Iterable[Row]) -> str:
    """Returns the number of outages by outcome."""
    rows = list(rows)
    lengths = Counter(_length(seconds) for seconds in {r.outage: r.seconds for r in rows}.values())
    said = ", ".join(f"{lengths[name]} {name}" for _, name in _LENGTHS if lengths[name])
    outcomes = ", ".join(
        f"{n} {text}" for text, n in Counter(r.outcome for r in rows).most_common()
    )
    told = sum(row.is_told for row in rows)
    return (
        f"{sum(lengths.values())} outages ({said}) with {len(rows)} jobs: {outcomes}; "
        f"{told} jobs told the neighbour's name meanwhile"
    )


def _length(seconds: float) -> str:
    return next(name for most, name in _LENGTHS if seconds < most)


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"
