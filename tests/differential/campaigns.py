"""Common parts of the programs that compare random pipelines: options, batches, processes and results."""

from __future__ import annotations

import argparse
import faulthandler
import logging
import math
import os
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import attrs
from haste import make_haste
from spec import Spec, from_text

_BATCH_SECONDS = 1800
_SHOWN_ROWS = 6
_SHOWN_CHARACTERS = 3000


@attrs.define
class Results:
    """Results of pipelines.

    Attributes:
        same: number of pipelines without a difference, by the way they ran.
        rows: number of compared elements.
        refused: pipelines that Beam's runner can't run, with the reasons.
        differences: differences, each with the smallest found pipeline that shows it.
    """

    same: Counter[str] = attrs.field(factory=Counter)
    rows: int = 0
    refused: list[str] = attrs.field(factory=list)
    differences: list[str] = attrs.field(factory=list)

    def add(self, other: Results) -> None:
        """Adds the results of another object of the same class."""
        for field in attrs.fields(type(self)):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))


def difference(
    expected: Mapping[str, Counter[str]],
    found: Mapping[str, Counter[str]],
    names: Iterable[str] | None = None,
) -> str | None:
    """Returns the difference of the rows of outputs; None without a difference.

    Args:
        names: compared outputs; None for all outputs.
    """
    told = []
    for name in sorted(expected.keys() | found.keys() if names is None else names):
        wanted, got = expected.get(name, Counter()), found.get(name, Counter())
        if wanted != got:
            told.append(f"{name}:{_shown('-', wanted - got)}{_shown('+', got - wanted)}")
    return "\n".join(told)[:_SHOWN_CHARACTERS] or None


def _shown(sign: str, rows: Counter[str]) -> str:
    most = rows.most_common(_SHOWN_ROWS)
    rest = f"\n  {sign} and {len(rows) - len(most)} more" if len(rows) > len(most) else ""
    return "".join(f"\n  {sign} {count} x {row}" for row, count in most) + rest


def begin_process() -> None:
    """Prepares a process that compares pipelines."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    make_haste()


@contextmanager
def end_if_stuck() -> Iterator[None]:
    """Ends the process with a traceback of all threads if the block hangs, because Beam's runner has
    no time limit.
    """
    faulthandler.dump_traceback_later(_BATCH_SECONDS, exit=True)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


def make_batches(
    options: argparse.Namespace, seed: int, count: int, make: Callable[[str], Spec]
) -> Iterator[dict[str, Spec]]:
    """Yields the pipelines of each job, by name."""
    if options.spec:
        yield {"p": from_text(options.spec.read_text(encoding="utf-8"))}
        return
    numbers = options.only or range(count)
    size = 1 if options.only else options.batch
    for start in range(0, len(numbers), size):
        chosen = numbers[start : start + size]
        yield {f"p{number}": make(f"{seed}/{number}") for number in chosen}


def add_common_options(
    parser: argparse.ArgumentParser, environments: Collection[str], *, batch: int, tries: int
) -> None:
    """Adds the options that all programs have. `batch` and `tries` are the defaults of these options."""
    add = parser.add_argument
    add("--seed", type=int, help="seed of the pipelines (default: another one each time)")
    add("--environment", action="append", choices=environments, help="default: all")
    add("--bulk", default="auto", help="whether bounded stages are run as Spark's own jobs")
    add("--without-spark", action="store_true", help="run on plain processes of this machine")
    add("--only", type=int, action="append", help="run only this pipeline of the seed")
    add("--spec", type=Path, help="run the pipeline whose expression is in this file")
    add("--batch", type=int, default=batch, help="number of pipelines in one job")
    add("--tries", type=int, default=tries, help="number of jobs to make a difference smaller")
    add("--minutes", type=float, default=math.inf, help="time after which no more jobs start")
    add("--jobs", type=int, default=os.cpu_count(), help="number of jobs side by side")
