"""Tests that run Beam's own suites: passing tests must pass again, and each failing test has a reason.

Each test runs in one of the two most common environments. The other environment is marked slow, as
are tests outside of the sample of Beam's largest suite. ``unsupported.toml`` lists the tests that
can't pass. A listed test that passes is an error, so that the list stays correct. Tests without a
pipeline are skipped.

The same tests run again as a stream (``--streaming``) and with ``--experiments=pre_optimize=none``.
With both options, Beam's client doesn't optimize the pipeline. All of these but a sample are marked
slow.
"""

from __future__ import annotations

import fnmatch
import tomllib
import unittest
from pathlib import Path
from zlib import crc32

import pytest
from beam_suites import MARKED_MODULES, MODULES, WAYS, BeamTest, Endpoint, Way, all_tests
from jobs import pickle_by_value

ENVIRONMENTS = ("", "LOOPBACK")
# Each suite runs one of this number of tests, always the same tests.
SAMPLED = {"transforms_of_beam": 8, "trigger": 2}
# Tests that wait for 30 s.
SLOW = ("PeriodicImpulseTest.test_fuzzy_length_and_interval",)
# Sample sizes for the alternative client options.
SAMPLED_IN_WAYS = {
    "streaming": {
        "fn_runner": 6,
        "test_stream": 6,
        "validates_runner": 8,
        "userstate": 8,
        "trigger": 24,
        "transforms_of_beam": 64,
    },
    "unoptimized": {
        "fn_runner": 10,
        "test_stream": 12,
        "validates_runner": 16,
        "userstate": 16,
        "trigger": 48,
        "transforms_of_beam": 128,
    },
}
LISTED = tomllib.loads((Path(__file__).parent / "unsupported.toml").read_text(encoding="utf-8"))


@pytest.fixture(autouse=True, scope="module")
def _send_along() -> None:
    pickle_by_value("beam_suites")


def refusal(test: BeamTest) -> str:
    """Returns the feature that the server must name for this test; empty if the test isn't refused."""
    return LISTED["refused"].get(test.suite, {}).get(test.name, "")


def difference(test: BeamTest, bulk: str, way: Way) -> str:
    """Returns how the runner differs from the test's expectation; empty without a difference."""
    kinds = ["different"]
    if bulk == "always":
        kinds.append("different_in_bulk")
    if way.unoptimized:
        kinds.append("different_unoptimized")
    found = (LISTED[kind].get(test.suite, {}).get(test.name, "") for kind in kinds)
    return next(filter(None, found), "")


def impossible(test: BeamTest, environment: str) -> str:
    """Returns why the test makes no sense in this environment; empty if it does."""
    reasons = LISTED["impossible"].get(environment or "default", {})
    return next((reasons[p] for p in reasons if fnmatch.fnmatch(test.name, p)), "")


def parameters() -> list[object]:
    """Returns every test in every environment in which it can pass; all but one of the environments are slow."""
    found = []
    for test in all_tests():
        of_all = SAMPLED.get(test.suite, 1)
        for environment, chosen in environments_of(test, of_all):
            marks = () if chosen else (pytest.mark.slow,)
            label = f"{test.suite}-{test.name}-{environment or 'default'}"
            found.append(pytest.param(test, environment, marks=marks, id=label))
    return found


def parameters_in_ways() -> list[object]:
    """Returns every test with all alternative options and possible environments; all but a sample are slow."""
    found = []
    for name, way in WAYS.items():
        for test in all_tests():
            of_all = SAMPLED_IN_WAYS[name][test.suite]
            for environment, chosen in environments_of(test, of_all):
                marks = () if chosen else (pytest.mark.slow,)
                label = f"{test.suite}-{test.name}-{name}-{environment or 'default'}"
                found.append(pytest.param(test, environment, way, marks=marks, id=label))
    return found


def environments_of(test: BeamTest, of_all: int) -> list[tuple[str, bool]]:
    """Returns the environments in which a test can pass, and whether CI runs them: one environment of
    each sampled test.

    Args:
        test: test of Beam.
        of_all: number of tests of which one is in the sample.
    """
    number = crc32(test.name.encode())
    possible = [e for e in ENVIRONMENTS if not impossible(test, e)]
    sampled = number // len(ENVIRONMENTS) % of_all == 0 and test.name not in SLOW
    return [
        (environment, sampled and index == number % len(possible))
        for index, environment in enumerate(possible)
    ]


def text_of(result: unittest.TestResult) -> str:
    return "\n".join(text for _, text in (*result.errors, *result.failures))


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("test", "environment"), parameters())
def test_beam_suite(
    address: str, test: BeamTest, environment: str, pytestconfig: pytest.Config
) -> None:
    check(test, Endpoint(address, environment), pytestconfig.getoption("--bulk"))


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("test", "environment", "way"), parameters_in_ways())
def test_beam_suite_with_other_client_options(
    address: str,
    test: BeamTest,
    environment: str,
    way: Way,
    pytestconfig: pytest.Config,
) -> None:
    check(test, Endpoint(address, environment, way), pytestconfig.getoption("--bulk"))


def check(test: BeamTest, endpoint: Endpoint, bulk: str) -> None:
    """Runs a test, and compares its outcome with the list."""
    result = test.run(endpoint)
    if result.skipped:
        pytest.skip(result.skipped[0][1])
    if not result.submitted and result.wasSuccessful():
        pytest.skip("submits no pipeline")
    feature, different = refusal(test), difference(test, bulk, endpoint.way)
    text = text_of(result)
    if not (feature or different):
        assert result.wasSuccessful(), text
        return
    assert not result.wasSuccessful(), f"passes now: take {test.name} off unsupported.toml"
    if different:
        pytest.xfail(different)
    assert "UNIMPLEMENTED" in text and feature in text, text
    pytest.xfail(f"refused by name: {feature}")


def test_beam_suite_modules_each_run_a_test() -> None:
    """If a mark covers a complete class, a search for tests without the mark finds nothing in it."""
    found = {(test.suite, test.case.__module__) for test in all_tests()}
    looked_for = {("validates_runner", name) for name in MARKED_MODULES}
    looked_for |= {(suite, name) for suite, names in MODULES.items() for name in names}
    assert looked_for <= found


def test_beam_suite_list_names_only_existing_tests() -> None:
    names = {(test.suite, test.name) for test in all_tests()}
    listed = {
        (suite, name)
        for kind in LISTED.keys() - {"impossible", "java", "prism"}
        for suite, tests in LISTED[kind].items()
        for name in tests
    }
    assert listed <= names
    plain = {name for _, name in names}
    for reasons in LISTED["impossible"].values():
        assert [pattern for pattern in reasons if not fnmatch.filter(plain, pattern)] == []
