"""Beam's own suites: what passes must go on passing, and what can't is listed with the reason.

Each test runs in one of the two environments that most people use; the other one is marked slow, and
so is what is not in the sample of Beam's largest suite. ``unsupported.toml`` lists what can't pass. A
listed test that passes fails here, so that the list stays true. What submits no pipeline is skipped.

The same tests run once more as a stream (``--streaming``) and with ``--experiments=pre_optimize=none``.
Both have Beam's client leave the pipeline as it is. All but a sample of these are marked slow.
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
# Of so many tests of a suite one is run, the same each time.
SAMPLED = {"transforms_of_beam": 8, "trigger": 2}
# What waits for half a minute.
SLOW = ("PeriodicImpulseTest.test_fuzzy_length_and_interval",)
# The same for the ways beside the usual one.
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
    """The feature that the server must name for this test, or nothing."""
    return LISTED["refused"].get(test.suite, {}).get(test.name, "")


def difference(test: BeamTest, bulk: str, way: Way) -> str:
    """How the runner differs from what the test expects, or nothing."""
    kinds = ["different"]
    if bulk == "always":
        kinds.append("different_in_bulk")
    if way.unoptimized:
        kinds.append("different_unoptimized")
    found = (LISTED[kind].get(test.suite, {}).get(test.name, "") for kind in kinds)
    return next(filter(None, found), "")


def impossible(test: BeamTest, environment: str) -> str:
    """Why the test makes no sense in this environment, or nothing."""
    reasons = LISTED["impossible"].get(environment or "default", {})
    return next((reasons[p] for p in reasons if fnmatch.fnmatch(test.name, p)), "")


def parameters() -> list[object]:
    """Every test in every environment where it can pass; all but one of these are slow."""
    found = []
    for test in all_tests():
        of_all = SAMPLED.get(test.suite, 1)
        for environment, chosen in environments_of(test, of_all):
            marks = () if chosen else (pytest.mark.slow,)
            label = f"{test.suite}-{test.name}-{environment or 'default'}"
            found.append(pytest.param(test, environment, marks=marks, id=label))
    return found


def parameters_in_ways() -> list[object]:
    """Every test in every other way and every environment where it can pass; all but a sample are slow."""
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
    """Where a test can pass, and whether it is to run there: one in turn, if it is in the sample.

    Args:
        test: Beam's.
        of_all: of so many tests one is in the sample.
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
    """Runs a test, whose outcome must be what the list says."""
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
    """A class that has the mark as a whole leaves nothing to those who look for tests without it."""
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
