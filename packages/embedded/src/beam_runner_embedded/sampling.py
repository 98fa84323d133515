"""Elements that Beam's operations sampled, encoded as metrics."""

from __future__ import annotations

from apache_beam.runners.worker.data_sampler import DataSampler
from beam_runner_model.bundles import MonitoringInfo
from beam_runner_worker.samples import create_sample_infos


def take_samples(sampler: DataSampler | None) -> None:
    """Takes one sample from each PCollection that had an element since the last call of this function."""
    if sampler is not None:
        for output in list(sampler._samplers.values()):
            output.sample()


def collect_samples(sampler: DataSampler | None) -> tuple[MonitoringInfo, ...]:
    """Returns all samples since the last call, as metrics."""
    if sampler is None:
        return ()
    take_samples(sampler)
    return create_sample_infos(sampler.samples())
