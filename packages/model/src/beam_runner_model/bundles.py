"""What a bundle reports: metrics, residuals, splits, progress and its result.

All event times are integers in milliseconds since the epoch.
"""

from __future__ import annotations

import attrs


@attrs.frozen
class MonitoringInfo:
    """One metric as the SDK reported it (``metrics.proto``), its payload still encoded.

    Attributes:
        urn: what it measures.
        type: how the payload is encoded and added up.
        labels: sorted pairs, ``PTRANSFORM``, ``PCOLLECTION``, ``NAMESPACE``, ``NAME``, ...
        payload: the value.
    """

    urn: str
    type: str
    labels: tuple[tuple[str, str], ...]
    payload: bytes


@attrs.frozen
class ResidualElement:
    """What a splittable DoFn has left of an element (``DelayedBundleApplication``).

    Attributes:
        element: a windowed value as the stage's input edge encodes them, restriction included.
        delay_ms: not to be resumed before so many milliseconds of processing time have passed.
        watermark: event time (ms) before which the rest will put out nothing, the earliest of all
            outputs; None if there is no watermark estimator.
    """

    element: bytes
    delay_ms: int = 0
    watermark: int | None = None


@attrs.frozen
class BundleSplit:
    """What a running bundle keeps and what it gives away (``ProcessBundleSplitResponse``).

    Elements of the input are numbered from 0 in the order in which the bundle is given them,
    skipped ones not counted.

    Attributes:
        last_primary: the number of the last element that the bundle processes whole; -1 for none.
        first_residual: the number of the first element that it does not touch. It is
            ``last_primary + 1``, or one more where the element between was split.
        primaries: what the bundle still does of the split element.
        residuals: the rest of the split element.
    """

    last_primary: int
    first_residual: int
    primaries: tuple[bytes, ...] = ()
    residuals: tuple[ResidualElement, ...] = ()


@attrs.frozen
class BundleProgress:
    """How far a running bundle is.

    Attributes:
        metrics: its monitoring infos so far.
        processed: how many of its input elements are done, with a fraction for the one that is
            being processed, where its restriction tracker can tell.
        waits: whether its user code leaves time to others in its interpreter; None if that is not
            known.
        starts: whether it waits for its SDK harness, which is still being started.
    """

    metrics: tuple[MonitoringInfo, ...]
    processed: float
    waits: bool | None = None
    starts: bool = False


@attrs.frozen
class BundleResult:
    """What a finished bundle says besides its data.

    Attributes:
        metrics: all monitoring infos of this bundle alone.
        requires_finalization: user code registered callbacks to run after the commit.
        residuals: what splittable DoFns deferred: input of a later bundle of the same stage.
    """

    metrics: tuple[MonitoringInfo, ...]
    requires_finalization: bool = False
    residuals: tuple[ResidualElement, ...] = ()
