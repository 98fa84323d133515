"""Reports of a bundle: metrics, residuals, splits, progress and the result.

All event times are integers in milliseconds since the Unix epoch.
"""

from __future__ import annotations

import attrs


@attrs.frozen
class MonitoringInfo:
    """Metric as the SDK reports it (``metrics.proto``), with an encoded payload.

    Attributes:
        urn: the URN of the metric.
        type: the URN of the payload's encoding, which also determines how payloads are combined.
        labels: sorted pairs of label and value, for example ``PTRANSFORM``, ``PCOLLECTION``,
            ``NAMESPACE`` and ``NAME``.
        payload: the encoded value.
    """

    urn: str
    type: str
    labels: tuple[tuple[str, str], ...]
    payload: bytes


@attrs.frozen
class ResidualElement:
    """Residual of an element that a splittable DoFn didn't finish (``DelayedBundleApplication``).

    Attributes:
        element: a windowed value with its restriction, in the encoding of the stage's input edge.
        delay_ms: minimum delay in processing time (ms) before the residual resumes.
        watermark: lower bound (event time, ms) of all outputs of the residual, the minimum over the
            outputs. None without a watermark estimator.
    """

    element: bytes
    delay_ms: int = 0
    watermark: int | None = None


@attrs.frozen
class BundleSplit:
    """Result of splitting a running bundle (``ProcessBundleSplitResponse``).

    The index of an input element counts from 0, in the order in which the bundle receives the
    elements. Skipped elements don't count.

    Attributes:
        last_primary: the index of the last element that the bundle processes completely; -1 for
            none.
        first_residual: the index of the first element that the bundle doesn't process. The value is
            ``last_primary + 1``, or ``last_primary + 2`` if the element between them was split.
        primaries: the parts of the split element that the bundle still processes.
        residuals: the other parts of the split element.
    """

    last_primary: int
    first_residual: int
    primaries: tuple[bytes, ...] = ()
    residuals: tuple[ResidualElement, ...] = ()


@attrs.frozen
class BundleProgress:
    """Progress of a running bundle.

    Attributes:
        metrics: the monitoring infos of the bundle so far.
        processed: the number of finished input elements. If a restriction tracker reports progress,
            the value includes a fraction for the current element.
        waits: whether the user code waits outside the interpreter, so that other threads can run.
            None if unknown.
        starts: whether the bundle waits for an SDK harness that is still starting.
    """

    metrics: tuple[MonitoringInfo, ...]
    processed: float
    waits: bool | None = None
    starts: bool = False


@attrs.frozen
class BundleResult:
    """Result of a finished bundle, without its output data.

    Attributes:
        metrics: the monitoring infos of this bundle only.
        requires_finalization: whether user code registered callbacks that must run after the
            commit.
        residuals: the residuals of splittable DoFns, which become input of a later bundle of the
            same stage.
    """

    metrics: tuple[MonitoringInfo, ...]
    requires_finalization: bool = False
    residuals: tuple[ResidualElement, ...] = ()
