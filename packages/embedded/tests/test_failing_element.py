"""Tests that an error of user code names exactly the element, key, timer or batch being processed."""

from __future__ import annotations

import apache_beam as beam
import pytest
from beam_runner_worker.errors import BundleError
from mini_runner import MiniRunner
from raising import (
    BAD,
    PAIRS,
    Coded,
    Estimated,
    FailingAt700,
    FailingBatchDoFn,
    FailingCombineFn,
    FailingCompactCombineFn,
    FailingDoFn,
    FailingWindowFn,
    LifecycleFailure,
    MultiParameterDoFn,
    OffsetClaimer,
    ReadOnly,
    ReassigningDoFn,
    assign_fixed_windows,
    create_failing_splittable,
    map_with_side_input,
    materialize,
    raise_at_bad_pair,
    replace_keys,
)

RICH = "rich" >> beam.ParDo(MultiParameterDoFn(lambda pair: pair))
IN_B = "('b', 2) with the restriction OffsetRange(start=0, stop=2)"
SIZED_B = "(('b', 2), (OffsetRange(start=0, stop=2), None))"
OF_B = "('b', 2) (can't encode its output Coded('b', 2))"

PROCESS = [
    (beam.Map(raise_at_bad_pair), "('b', 2)"),
    (beam.Filter(raise_at_bad_pair), "('b', 2)"),
    (beam.FlatMap(lambda pair: [raise_at_bad_pair(pair)]), "('b', 2)"),
    (beam.FlatMap(lambda pair: 5 if pair == BAD else [pair]), "('b', 2)"),
    (beam.Map(lambda pair: pair) | beam.Map(raise_at_bad_pair), "('b', 2)"),
    (beam.Map(lambda pair: 1 / (pair[1] - 2)), "('b', 2)"),
    (beam.ParDo(FailingDoFn()), "('b', 2)"),
    (beam.ParDo(MultiParameterDoFn()), "('b', 2)"),
    (RICH | beam.ParDo(MultiParameterDoFn()), "('b', 2)"),
    (beam.ParDo(ReassigningDoFn()), "('b', 2)"),
    (beam.GroupByKey() | beam.MapTuple(lambda key, _: raise_at_bad_pair((key, 2))), "('b', [2])"),
    (
        beam.Map(lambda pair: pair[1]).with_output_types(int) | beam.ParDo(FailingBatchDoFn()),
        "the batch [1, 2, 3]",
    ),
]
AT_NO_ELEMENT = [
    (beam.ParDo(LifecycleFailure(where)), "") for where in ("setup", "start", "finish")
]
ENCODING = [
    (beam.Map(Coded).with_output_types(Coded) | materialize(), OF_B),
    (beam.ParDo(MultiParameterDoFn(Coded)).with_output_types(Coded) | materialize(), OF_B),
    (
        beam.Map(Estimated).with_output_types(Estimated) | materialize(),
        "('b', 2) (can't encode its output)",
    ),
    (beam.Map(Coded).with_output_types(Coded) | assign_fixed_windows() | materialize(), OF_B),
    (
        replace_keys(Coded) | beam.GroupByKey(),
        "('b', 2) (can't encode its output (Coded('b', 2), 2))",
    ),
    (
        beam.Map(lambda pair: (pair[0], Coded(pair))).with_output_types(tuple[str, Coded])
        | beam.GroupByKey(),
        "('b', 2) (can't encode its output ('b', Coded('b', 2)))",
    ),
    (
        beam.Map(lambda pair: "text").with_output_types(int) | materialize(),
        "('a', 1) (can't encode its output 'text')",
    ),
    (
        beam.ParDo(LifecycleFailure("nowhere")).with_output_types(Coded) | materialize(),
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
    (beam.CombinePerKey(FailingCombineFn("add")), "('b', 2)"),
    (assign_fixed_windows() | beam.CombinePerKey(FailingCombineFn("add")), "('b', 2)"),
    (RICH | beam.CombinePerKey(FailingCombineFn("add")), "('b', 2)"),
    (beam.CombinePerKey(FailingCompactCombineFn("compact")), "the key 'b'"),
    (
        assign_fixed_windows() | beam.CombinePerKey(FailingCompactCombineFn("compact")),
        "the key 'b'",
    ),
    (beam.CombinePerKey(FailingCombineFn("merge")), "the key 'b'"),
    (beam.CombinePerKey(FailingCombineFn("extract")), "the key 'b'"),
    (assign_fixed_windows() | beam.CombinePerKey(FailingCombineFn("extract")), "the key 'b'"),
    (beam.GroupByKey() | beam.CombineValues(FailingCombineFn("extract")), "('b', [2])"),
    (beam.Map(lambda pair: ([1], 2)) | beam.CombinePerKey(sum), "([1], 2)"),
]
WINDOWS = [
    (beam.WindowInto(FailingWindowFn()), "('b', 2)"),
    (RICH | beam.WindowInto(FailingWindowFn()), "('b', 2)"),
]
RESTRICTIONS = [
    (create_failing_splittable("initial"), "('b', 2)"),
    (create_failing_splittable("split"), SIZED_B),
    (create_failing_splittable("size"), SIZED_B),
    (create_failing_splittable("tracker"), IN_B),
    (create_failing_splittable("process"), IN_B),
    (create_failing_splittable("claim", claimed=-1), IN_B),
    (
        create_failing_splittable("encode") | materialize(),
        f"{IN_B} (can't encode its output Coded('b', 2))",
    ),
]
SIDE_INPUTS = [
    (map_with_side_input([], beam.pvalue.AsDict), "('b', 2)"),
    (map_with_side_input([1, 2], beam.pvalue.AsSingleton), "('a', 1)"),
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
def test_user_error_names_element_being_processed(transform: beam.PTransform, element: str) -> None:
    pipeline = beam.Pipeline()
    pairs = pipeline | beam.Create(PAIRS) | "Same" >> beam.Map(lambda x: x)
    _ = pairs | "Failing" >> transform
    with pytest.raises(BundleError) as failed:
        MiniRunner(pipeline).run()
    assert failed.value.element == element


def test_undecodable_element_fails_bundle_with_bytes() -> None:
    pipeline = beam.Pipeline()
    made = pipeline | beam.Create(PAIRS) | beam.Map(ReadOnly).with_output_types(ReadOnly)
    _ = made | beam.ParDo(OffsetClaimer())
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
            beam.Map(lambda n: Coded(BAD if n == 700 else n)).with_output_types(Coded)
            | materialize(),
            "700 (can't encode its output Coded('b', 2))",
        ),
        (
            beam.FlatMap(lambda n: [Coded(BAD if n == 700 else n)]).with_output_types(Coded)
            | materialize(),
            "Coded('b', 2) (can't be encoded)",
        ),
        (beam.FlatMap(lambda n: [1 // (n - 700)]), "700"),
        (beam.Map(lambda n: n) | "next" >> beam.Map(lambda n: 1 // (n - 700)), "700"),
        (beam.Map(lambda n: (n % 7, n)) | beam.CombinePerKey(FailingAt700()), "(0, 700)"),
        (
            beam.Map(lambda n: (n % 7, "text" if n == 700 else n)) | beam.CombinePerKey(sum),
            "the key 0",
        ),
    ],
)
def test_failing_element_in_batch_is_named_in_error(
    transform: beam.PTransform, element: str
) -> None:
    """If results are emitted in runs, the source element of an unencodable result is known only for Maps."""
    pipeline = beam.Pipeline()
    numbers = pipeline | beam.Create([0]) | beam.FlatMap(lambda zero: list(range(1000)))
    _ = numbers | transform
    with pytest.raises(BundleError) as failed:
        MiniRunner(pipeline).run()
    assert failed.value.element == element
