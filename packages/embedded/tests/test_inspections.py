"""Tests of cached inspections of DoFn methods: the results equal Beam's inspections, and each
function is inspected once.
"""

from __future__ import annotations

from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.runners import common
from apache_beam.transforms import core, userstate
from apache_beam.transforms.timeutil import TimeDomain

from beam_runner_embedded.inspections import cache_inspections


class Plain(beam.DoFn):
    def process(self, element: int, factor: int = 2) -> list[int]:
        return [element * factor]


class Windowed(Plain):
    def process(self, element: int, factor: int = 2, where: Any = beam.DoFn.WindowParam) -> Any:
        return [element]

    def finish_bundle(self, finalizer: Any = None) -> None:
        pass


BAG = beam.DoFn.StateParam(userstate.BagStateSpec("bag", VarIntCoder()))
TIMER = userstate.TimerSpec("timer", TimeDomain.WATERMARK)
TIMER_PARAM = beam.DoFn.TimerParam(TIMER)


class Stateful(beam.DoFn):
    def process(self, element: Any, bag: Any = BAG) -> None:
        bag.add(element)

    @userstate.on_timer(TIMER)
    def ring(self, timer: Any = TIMER_PARAM) -> None:
        timer.clear()


class Speaks(Plain):
    """A DoFn that declares its method parameters itself, also for a method inherited from Beam."""

    def _inspect_start_bundle(self) -> Any:
        return ["anything"], [3]


def _function(element: int, time: Any = beam.DoFn.TimestampParam) -> list[int]:
    return [element]


def replace_attribute() -> beam.DoFn:
    """Returns a DoFn with a method replaced on the instance."""
    fn: Any = Plain()
    fn.start_bundle = Windowed().finish_bundle
    return fn  # type: ignore[no-any-return]


MAKERS: Any = [
    Plain,
    Windowed,
    Stateful,
    Speaks,
    replace_attribute,
    lambda: core.CallableWrapperDoFn(_function),
    lambda: core.CallableWrapperDoFn(str.upper),
]


def inspect_fn(fn: beam.DoFn) -> Any:
    """Returns everything that Beam learns from inspecting a DoFn."""
    signature = common.DoFnSignature(fn)
    methods = [
        signature.process_method,
        signature.start_bundle_method,
        signature.finish_bundle_method,
        signature.setup_lifecycle_method,
        signature.teardown_lifecycle_method,
        *signature.timer_methods.values(),
    ]
    answers = [(method.args, method.defaults) for method in methods]
    return answers, userstate.get_dofn_specs(fn), signature.has_bundle_finalization()


@pytest.mark.parametrize("make", MAKERS)
def test_cached_signatures_equal_signatures_of_beam(make: Any) -> None:
    fn = make()
    expected = inspect_fn(fn)
    with cache_inspections():
        assert inspect_fn(fn) == expected
        # Another object of the class, and an object of another class, are inspected separately.
        assert inspect_fn(make()) == expected
        assert inspect_fn(Windowed()) != inspect_fn(Plain())


def test_signature_of_function_is_inspected_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    usual = core.get_function_args_defaults

    def ask(function: Any) -> Any:
        asked.append(function.__name__)
        return usual(function)

    monkeypatch.setattr(core, "get_function_args_defaults", ask)
    with cache_inspections():
        common.DoFnSignature(Plain())
    asked.clear()
    with cache_inspections():
        common.DoFnSignature(Plain())
    assert asked.count("process") == 1
    assert not {"setup", "start_bundle", "with_input_types"} & set(asked)


def test_method_signature_is_inspected_again_in_next_block() -> None:
    fn: Any = Plain()
    with cache_inspections():
        assert common.DoFnSignature(fn).process_method.defaults == [2]
    fn.process = Windowed().process
    with cache_inspections():
        assert len(common.DoFnSignature(fn).process_method.defaults) == 2


def test_inspection_functions_of_beam_are_restored_after_block() -> None:
    before = core.get_function_arguments, userstate.get_dofn_specs
    with pytest.raises(AttributeError, match="no_such"), cache_inspections():
        core.get_function_arguments(Plain(), "no_such")
    assert (core.get_function_arguments, userstate.get_dofn_specs) == before
