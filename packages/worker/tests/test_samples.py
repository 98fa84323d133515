"""Tests that an experiment enables samples, and that the latest samples are retained."""

from __future__ import annotations

import pytest
from apache_beam.portability.api import beam_fn_api_pb2

from beam_runner_worker.samples import (
    MOST_BYTES,
    are_samples_enabled,
    create_sample_infos,
    decode_samples,
)
from beam_runner_worker.totals import Totals


def response(**samples: list[bytes]) -> beam_fn_api_pb2.SampleDataResponse:
    said = beam_fn_api_pb2.SampleDataResponse()
    for pcollection_id, elements in samples.items():
        for element in elements:
            said.element_samples[pcollection_id].elements.add(element=element)
    return said


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ("", False),
        ("{}", False),
        ('{"beam:option:experiments:v1": null}', False),
        ('{"beam:option:experiments:v1": ["beam_fn_api"]}', False),
        ('{"beam:option:experiments:v1": ["enable_data_sampling"]}', True),
        ('{"experiments": ["enable_data_sampling"]}', True),
    ],
)
def test_element_samples_are_enabled_by_experiment_option(options: str, wanted: bool) -> None:
    assert are_samples_enabled(options) is wanted


def test_latest_element_samples_of_each_collection_are_retained() -> None:
    totals = Totals()
    totals.add(create_sample_infos(response(p=[b"%d" % i for i in range(8)], q=[b"q"])))
    totals.add(create_sample_infos(response(p=[b"%d" % i for i in range(8, 15)])))
    found = {dict(info.labels)["PCOLLECTION"]: decode_samples(info) for info in totals.infos()}
    assert found == {"p": [b"%d" % i for i in range(5, 15)], "q": [b"q"]}


def test_large_element_samples_are_omitted() -> None:
    assert create_sample_infos(response(p=[bytes(MOST_BYTES + 1)], q=[])) == ()
