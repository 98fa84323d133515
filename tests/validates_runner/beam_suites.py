"""Beam's own tests, found in the installed Beam and run on any job endpoint."""

from __future__ import annotations

import functools
import importlib
import unittest
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any
from unittest import mock

import attrs
import pytest
from apache_beam.options.pipeline_options import (
    DebugOptions,
    PipelineOptions,
    PortableOptions,
    StandardOptions,
)
from apache_beam.runners.portability.portable_runner import PortableRunner
from apache_beam.runners.portability.portable_runner_test import PortableRunnerTest
from apache_beam.testing import test_stream_test
from apache_beam.testing.test_pipeline import TestPipeline

MARK = "it_validatesrunner"
# Modules with marked tests, except modules that need a cloud service, and the only test of
# RunInference,
# which skips itself without --streaming on the command line.
MARKED_MODULES = (
    "apache_beam.pipeline_test",
    "apache_beam.metrics.metric_test",
    "apache_beam.runners.portability.fn_api_runner.translations_test",
    "apache_beam.transforms.combinefn_lifecycle_test",
    "apache_beam.transforms.combiners_test",
    "apache_beam.transforms.deduplicate_test",
    "apache_beam.transforms.dofn_lifecycle_test",
    "apache_beam.transforms.ptransform_test",
    "apache_beam.transforms.sideinputs_test",
    "apache_beam.transforms.util_test",
)
# Modules whose tests run if they submit a pipeline, marked or not.
MODULES = {
    "userstate": ("apache_beam.transforms.userstate_test",),
    "trigger": ("apache_beam.transforms.trigger_test",),
    "transforms_of_beam": tuple(
        f"apache_beam.transforms.{name}_test"
        for name in (
            "window",
            "combiners",
            "ptransform",
            "util",
            "sideinputs",
            "core",
            "create",
            "batch_dofn",
            "stats",
            "error_handling",
            "fully_qualified_named_transform",
            "periodicsequence",
            "timestamped_value_type",
            "transforms_keyword_only_args",
            "write_ptransform",
        )
    ),
}


@attrs.frozen
class Way:
    """Client options of a submission.

    Attributes:
        streaming: whether the client uses `--streaming`, which turns its optimizations off.
        unoptimized: whether the client doesn't optimize the pipeline, without `--streaming`.
    """

    streaming: bool = False
    unoptimized: bool = False

    @property
    def flags(self) -> list[str]:
        """Returns the pipeline options."""
        streaming = ["--streaming"] if self.streaming else []
        return [*streaming, *(["--experiments=pre_optimize=none"] if self.unoptimized else [])]

    def say(self, options: PipelineOptions) -> None:
        """Sets these options in existing pipeline options."""
        if self.streaming:
            options.view_as(StandardOptions).streaming = True
        if self.unoptimized:
            options.view_as(DebugOptions).add_experiment("pre_optimize=none")


WAYS = {"streaming": Way(streaming=True), "unoptimized": Way(unoptimized=True)}
"""Alternative client options by name."""


@attrs.frozen
class Endpoint:
    """Endpoint, environment and client options of a test.

    An empty environment means that the client names no environment.
    """

    address: str
    environment_type: str
    way: Way = attrs.field(factory=Way)

    @property
    def flags(self) -> list[str]:
        """Returns the pipeline options."""
        flags = ["--runner=PortableRunner", f"--job_endpoint={self.address}", *self.way.flags]
        if self.environment_type:
            flags.append(f"--environment_type={self.environment_type}")
        return flags


@attrs.frozen
class BeamTest:
    """Test method of Beam.

    Attributes:
        suite: ``fn_runner``, ``test_stream``, ``validates_runner`` or one of ``MODULES``.
        case: test class, already bound to no endpoint.
        method: name of the method in the class.
    """

    suite: str
    case: type[unittest.TestCase]
    method: str

    @property
    def name(self) -> str:
        """Name of the test in reports and in ``unsupported.toml``."""
        if self.suite == "fn_runner":
            return self.method
        return f"{self.case.__name__}.{self.method}"

    def run(self, endpoint: Endpoint) -> Result:
        """Runs the test to its end."""
        _bind(endpoint)
        result = Result()
        with mock.patch.object(PortableRunner, "run_portable_pipeline", _counting(result)):
            unittest.TestSuite([self.case(self.method)]).run(result)
        return result


class Result(unittest.TestResult):
    """Test result that handles pytest's skips as skips.

    Attributes:
        submitted: number of pipelines sent to the endpoint.
    """

    submitted = 0

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        if issubclass(err[0], pytest.skip.Exception):
            self.addSkip(test, str(err[1]))
        else:
            super().addError(test, err)


class FnRunnerTest(PortableRunnerTest):
    """The tests that all portable runners of Beam share, on the endpoint that was bound last."""

    endpoint: Endpoint

    @classmethod
    def tearDownClass(cls) -> None:
        """Does nothing: the class started no service."""

    @classmethod
    def get_runner(cls) -> PortableRunner:
        return PortableRunner()

    @classmethod
    def _get_job_endpoint(cls) -> str:
        return cls.endpoint.address

    def create_options(self) -> PipelineOptions:
        options = super().create_options()
        portable = options.view_as(PortableOptions)
        portable.environment_type = self.endpoint.environment_type or None
        self.endpoint.way.say(options)
        return options


class StreamPipeline(TestPipeline):
    """Pipeline of tests with separate options, on the endpoint that was bound last."""

    endpoint: Endpoint

    def __init__(self, options: PipelineOptions) -> None:
        options.view_as(StandardOptions).runner = "PortableRunner"
        portable = options.view_as(PortableOptions)
        portable.job_endpoint = self.endpoint.address
        portable.environment_type = self.endpoint.environment_type or None
        self.endpoint.way.say(options)
        super().__init__(options=options)


def _counting(result: Result) -> Callable[..., Any]:
    submit = PortableRunner.run_portable_pipeline

    def run_portable_pipeline(self: PortableRunner, pipeline: Any, options: Any) -> Any:
        result.submitted += 1
        return submit(self, pipeline, options)

    return run_portable_pipeline


def _bind(endpoint: Endpoint) -> None:
    FnRunnerTest.endpoint = StreamPipeline.endpoint = endpoint
    TestPipeline.pytest_test_pipeline_options = " ".join(endpoint.flags)
    test_stream_test.TestPipeline = StreamPipeline


@functools.cache
def all_tests() -> tuple[BeamTest, ...]:
    """Returns every test of all suites, in a fixed order."""
    loader = unittest.TestLoader()
    tests = [
        BeamTest("fn_runner", FnRunnerTest, method)
        for method in loader.getTestCaseNames(FnRunnerTest)
    ]
    streams = test_stream_test.TestStreamTest
    tests.extend(
        BeamTest("test_stream", streams, method) for method in loader.getTestCaseNames(streams)
    )
    for name in MARKED_MODULES:
        tests.extend(_of_module("validates_runner", importlib.import_module(name), marked=True))
    for suite, modules in MODULES.items():
        for name in modules:
            tests.extend(_of_module(suite, importlib.import_module(name), marked=False))
    return tuple(tests)


def _of_module(suite: str, module: ModuleType, *, marked: bool) -> Iterator[BeamTest]:
    """Returns the marked tests of a module, or the unmarked tests."""
    for value in vars(module).values():
        if not (isinstance(value, type) and issubclass(value, unittest.TestCase)):
            continue
        if value.__module__ != module.__name__:
            continue
        for method in unittest.TestLoader().getTestCaseNames(value):
            if marked == (_has_mark(value) or _has_mark(getattr(value, method))):
                yield BeamTest(suite, value, method)


def _has_mark(marked: Any) -> bool:
    return any(mark.name == MARK for mark in getattr(marked, "pytestmark", ()))
