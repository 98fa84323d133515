"""Tests that an error of user code names exactly the element, key, timer or batch being processed."""

from __future__ import annotations

import apache_beam as beam
import pytest
from mini_runner import MiniRunner
from raising import (
    BAD,
    PAIRS,
    At700,
    Batched,
    ByElement,
    Coded,
    Combining,
    Compacting,
    Counted,
    Estimated,
    InLife,
    Plain,
    ReadOnly,
    Reassigning,
    Rich,
    Written,
    beside,
    boom,
    fixed,
    of_keys,
    splittable,
)

from beam_runner_worker.errors import BundleError

RICH = "rich" >> beam.ParDo(Rich(lambda pair: pair))
IN_B = "('b', 2) with the restriction OffsetRange(start=0, stop=2)"
SIZED_B = "(('b', 2), (OffsetRange(start=0, stop=2), None))"
OF_B = "('b', 2) (can't encode its output Coded('b', 2))"

PROCESS = [
    (beam.Map(boom), "('b', 2)"),
    (beam.Filter(boom), "('b', 2)"),
    (beam.FlatMap(lambda pair: [boom(pair)]), "('b', 2)"),
    (beam.FlatMap(lambda pair: 5 if pair == BAD else [pair]), "('b', 2)"),
    (beam.Map(lambda pair: pair) | beam.Map(boom), "('b', 2)"),
    (beam.Map(lambda pair: 1 / (pair[1] - 2)), "('b', 2)"),
    (beam.ParDo(Plain()), "('b', 2)"),
    (beam.ParDo(Rich()), "('b', 2)"),
    (RICH | beam.ParDo(Rich()), "('b', 2)"),
    (beam.ParDo(Reassigning()), "('b', 2)"),
    (beam.GroupByKey() | beam.MapTuple(lambda key, _: boom((key, 2))), "('b', [2])"),
    (
        beam.Map(lambda pair: pair[1]).with_output_types(int) | beam.ParDo(Batched()),
        "the batch [1, 2, 3]",
    ),
]
AT_NO_ELEMENT = [(beam.ParDo(InLife(where)), "") for where in ("setup", "start", "finish")]
ENCODING = [
    (beam.Map(Coded).with_output_types(Coded) | Written(), OF_B),
    (beam.ParDo(Rich(Coded)).with_output_types(Coded) | Written(), OF_B),
    (
        beam.Map(Estimated).with_output_types(Estimated) | Written(),
        "('b', 2) (can't encode its output)",
    ),
    (beam.Map(Coded).with_output_types(Coded) | fixed() | Written(), OF_B),
    (
        of_keys(Coded) | beam.GroupByKey(),
        "('b', 2) (can't encode its output (Coded('b', 2), 2))",
    ),
    (
        beam.Map(lambda pair: (pair[0], Coded(pair))).with_output_types(tuple[str, Coded])
        | beam.GroupByKey(),
        "('b', 2) (can't encode its output ('b', Coded('b', 2)))",
    ),
    (
        beam.Map(lambda pair: "text").with_output_types(int) | Written(),
        "('a', 1) (can't encode its output 'text')",
    ),
    (
        beam.ParDo(InLife("nowhere")).with_output_types(Coded) | Written(),
        "Coded('b', 2) (can't be encoded)",
    ),
]
ENCODED = b"('b', 2)".hex()
DECODING = [
    (
        beam.Map(lambda pair: (pair[0], ReadOnly(pair))).with_output_types(tuple[str, ReadOnly])
        | beam.GroupByKey(),
        f"the key 0162 with the values 08{ENCODED} (encoded; can't be decoded)",
    ),
]
COMBINING = [
    (beam.CombinePerKey(Combining("add")), "('b', 2)"),
    (fixed() | beam.CombinePerKey(Combining("add")), "('b', 2)"),
    (RICH | beam.CombinePerKey(Combining("add")), "('b', 2)"),
    (beam.CombinePerKey(Compacting("compact")), "the key 'b'"),
    (fixed() | beam.CombinePerKey(Compacting("compact")), "the key 'b'"),
    (beam.CombinePerKey(Combining("merge")), "the key 'b'"),
    (beam.CombinePerKey(Combining("extract")), "the key 'b'"),
    (fixed() | beam.CombinePerKey(Combining("extract")), "the key 'b'"),
    (beam.GroupByKey() | beam.CombineValues(Combining("extract")), "('b', [2])"),
    (beam.Map(lambda pair: ([1], 2)) | beam.CombinePerKey(sum), "([1], 2)"),
]
WINDOWS = [
    (beam.WindowInto(ByElement()), "('b', 2)"),
    (RICH | beam.WindowInto(ByElement()), "('b', 2)"),
]
RESTRICTIONS = [
    (splittable("initial"), "('b', 2)"),
    (splittable("split"), SIZED_B),
    (splittable("size"), SIZED_B),
    (splittable("tracker"), IN_B),
    (splittable("process"), IN_B),
    (splittable("claim", claimed=-1), IN_B),
    (
        splittable("encode") | Written(),
        f"{IN_B} (can't encode its output Coded('b', 2))",
    ),
]
SIDE_INPUTS = [
    (beside([], beam.pvalue.AsDict), "('b', 2)"),
    (beside([1, 2], beam.pvalue.AsSingleton), "('a', 1)"),
]


@pytest.mark.parametrize(
    ("transform", "element"),
    [
        *PROCESS,
        *AT_NO_ELEMENT,
        *ENCODING,
        *DECODING,
        *COMBINING,
        *WINDOWS,
        *RESTRICTIONS,
        *SIDE_INPUTS,
    ],
)
def test_failure_names_element_being_processed(transform: beam.PTransform, element: str) -> None:
    pipeline = beam.Pipeline()
    pairs = pipeline | beam.Create(PAIRS) | "Same" >> beam.Map(lambda x: x)
    _ = pairs | "Failing" >> transform
    with pytest.raises(BundleError) as failed:
        MiniRunner(pipeline).run()
    assert failed.value.element == element


def test_undecodable_element_fails_bundle_with_bytes() -> None:
    pipeline = beam.Pipeline()
    made = pipeline | beam.Create(PAIRS) | beam.Map(ReadOnly).with_output_types(ReadOnly)
    _ = made | beam.ParDo(Counted())
    with pytest.raises(BundleError) as failed:
        MiniRunner(pipeline).run()
    begin, _, end = failed.value.element.partition(ENCODED)
    assert end.endswith("(encoded, with its timestamp, windows and pane; can't be decoded)")
    assert b"('a', 1)".hex() not in begin
    assert b"('c', 3)".hex() not in end


@pytest.mark.parametrize(
    ("transform", "element"),
    [
        (
            beam.Map(lambda n: Coded(BAD if n == 700 else n)).with_output_types(Coded) | Written(),
            "700 (can't encode its output Coded('b', 2))",
        ),
        (
            beam.FlatMap(lambda n: [Coded(BAD if n == 700 else n)]).with_output_types(Coded)
            | Written(),
            "Coded('b', 2) (can't be encoded)",
        ),
        (beam.FlatMap(lambda n: [1 // (n - 700)]), "700"),
        (beam.Map(lambda n: n) | "next" >> beam.Map(lambda n: 1 // (n - 700)), "700"),
        (beam.Map(lambda n: (n % 7, n)) | beam.CombinePerKey(At700()), "(0, 700)"),
        (
            beam.Map(lambda n: (n % 7, "text" if n == 700 else n)) | beam.CombinePerKey(sum),
            "the key 0",
        ),
    ],
)
def test_failing_element_in_run_is_named(transform: beam.PTransform, element: str) -> None:
    """If results are emitted in runs, the source element of an unencodable result is known only for Maps."""
    pipeline = beam.Pipeline()
    numbers = pipeline | beam.Create([0]) | beam.FlatMap(lambda zero: list(range(1000)))
    _ = numbers | transform
    with pytest.raises(BundleError) as failed:
        MiniRunner(pipeline).run()
    assert failed.value.element == element
