"""Checks of the runner's options in a program, before a server starts or receives the job."""

from __future__ import annotations

import difflib
import os
from collections.abc import Collection

from apache_beam.options.pipeline_options import PipelineOptions
from beam_runner_runtime.job_options import VARIABLES, parse_runner_options
from beam_runner_runtime.option_values import make_option_key
from beam_runner_runtime.quarantine_options import parse_quarantine_options
from beam_runner_runtime.update_options import parse_update_options

PREFIX = "beam_spark_"


def check_runner_options(options: PipelineOptions, known: Collection[str]) -> None:
    """Checks the names of all options with the runner's prefix, and the values of options for jobs.

    Args:
        known: the names of the runner's options.

    Raises:
        ValueError: a name is unknown, or a value is invalid; the text names the option.
    """
    stated = options.get_all_options(drop_default=True, retain_unknown_options=True)
    ours = {name: value for name, value in stated.items() if name.startswith(PREFIX)}
    for name in sorted(ours.keys() - set(known)):
        endings = [one.removeprefix(PREFIX) for one in known]
        meant = difflib.get_close_matches(name.removeprefix(PREFIX), endings, 1)
        hint = (
            f"did you mean --{PREFIX}{meant[0]}?"
            if meant
            else f"expected one of {', '.join(known)}"
        )
        raise ValueError(f"the runner has no option --{name}: {hint}")
    ours["update"] = stated.get("update")
    if texts := ours.get(VARIABLES.name):
        ours[VARIABLES.name] = VARIABLES.complete_texts(texts, os.environ)
    sent = {make_option_key(name): value for name, value in ours.items()}
    parse_runner_options(sent)
    parse_update_options(sent)
    parse_quarantine_options(sent)
