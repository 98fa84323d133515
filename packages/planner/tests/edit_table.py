"""The table of edits of a stream, each with the exact report of an update."""

from __future__ import annotations

from apache_beam.transforms import trigger, window
from beam_runner_model.updates import UpdateInstructions
from update_samples import (
    EMPTY,
    WAITING,
    CountOfOtherKinds,
    CountWithMore,
    CountWithoutAlarm,
    CountWithoutSeen,
    Edit,
    OrderInCents,
    OrderWithDate,
    OrderWithNote,
    Stream,
    drop,
)

early = trigger.AfterWatermark(early=trigger.AfterCount(2))

EDITS = [
    Edit(
        "unchanged",
        Stream(),
        [],
    ),
    Edit(
        "stateless-step-inserted-before-a-stateful-step",
        Stream(inserted="Insert"),
        [],
    ),
    Edit(
        "redistribution-inserted",
        Stream(shuffled=True),
        [
            "new added step Spread",
        ],
    ),
    Edit(
        "redistribution-removed-while-elements-wait",
        Stream(),
        [
            "refused removed step Spread passes",
        ],
        old=Stream(shuffled=True),
        data={"deal": WAITING},
    ),
    Edit(
        "redistribution-removed-when-quiet",
        Stream(),
        [
            "dropped removed step Spread",
        ],
        old=Stream(shuffled=True),
    ),
    Edit(
        "stateful-step-renamed-with-mapping",
        Stream(count_name="Tally"),
        [
            "kept renamed step Tally: Count -> ",
        ],
        wishes=UpdateInstructions({"Count": "Tally"}),
    ),
    Edit(
        "stateful-step-renamed-without-mapping",
        Stream(count_name="Tally"),
        [
            "new added step Tally",
            "refused removed step Count:  -> Tally",
        ],
    ),
    Edit(
        "stateful-step-dropped-by-a-mapping-to-nothing",
        Stream(count_name="Tally"),
        [
            "new added step Tally",
            "dropped removed step Count agreed",
        ],
        wishes=UpdateInstructions({"Count": ""}),
    ),
    Edit(
        "combine-removed",
        Stream(sums=False),
        [
            "refused removed step Sum/Group",
        ],
    ),
    Edit(
        "combine-removed-all-dropped",
        Stream(sums=False),
        [
            "dropped removed step Sum/Group agreed",
        ],
        wishes=drop("all"),
    ),
    Edit(
        "state-removed",
        Stream(count=CountWithoutSeen),
        [
            "kept code_changed step Count",
            "refused removed state Count/seen",
        ],
    ),
    Edit(
        "state-removed-and-dropped",
        Stream(count=CountWithoutSeen),
        [
            "kept code_changed step Count",
            "dropped removed state Count/seen agreed",
        ],
        wishes=drop("Count/seen"),
    ),
    Edit(
        "state-removed-from-renamed-step-and-dropped",
        Stream(count=CountWithoutSeen, count_name="Tally"),
        [
            "kept renamed step Tally: Count -> ",
            "kept code_changed step Tally",
            "dropped removed state Tally/seen agreed",
        ],
        wishes=UpdateInstructions({"Count": "Tally"}, drop=frozenset({"Tally/seen"})),
    ),
    Edit(
        "timer-removed-and-dropped",
        Stream(count=CountWithoutAlarm),
        [
            "kept code_changed step Count",
            "dropped removed timer Count/alarm agreed",
        ],
        wishes=drop("Count/alarm"),
    ),
    Edit(
        "states-and-timers-added",
        Stream(count=CountWithMore),
        [
            "kept code_changed step Count",
            "new added state Count/last",
            "new added timer Count/retry",
        ],
    ),
    Edit(
        "kinds-of-states-and-timers-changed",
        Stream(count=CountOfOtherKinds),
        [
            "kept code_changed step Count",
            "refused coder state Count/seen: string_utf8 -> bytes",
            "refused kind state Count/total: value -> bag",
            "refused kind timer Count/alarm: event time -> processing time",
        ],
    ),
    Edit(
        "kinds-of-states-changed-and-dropped",
        Stream(count=CountOfOtherKinds),
        [
            "kept code_changed step Count",
            "dropped coder state Count/seen: string_utf8 -> bytes agreed",
            "dropped kind state Count/total: value -> bag agreed",
            "refused kind timer Count/alarm: event time -> processing time",
        ],
        wishes=drop("Count/total", "Count/seen"),
    ),
    Edit(
        "encoding-of-keys-changed",
        Stream(key_type=bytes),
        [
            "refused key_coder step Count: string_utf8 -> bytes",
            "refused key_coder step Group: string_utf8 -> bytes",
            "refused key_coder step Sum/Group: string_utf8 -> bytes",
        ],
    ),
    Edit(
        "encoding-of-values-changed",
        Stream(value_type=float),
        [
            "kept coder step Count: varint -> double",
            "refused coder step Group: varint -> double",
        ],
    ),
    Edit(
        "size-of-windows-changed",
        Stream(windows=window.FixedWindows(20)),
        [
            "kept window_size step Group: FixedWindows(size=10000 ms) -> FixedWindows(size=20000 ms)",
            "kept window_size step Sum/Group: FixedWindows(size=10000 ms) -> FixedWindows(size=20000 ms)",
        ],
    ),
    Edit(
        "kind-of-windows-changed",
        Stream(windows=window.Sessions(10)),
        [
            "refused window_kind step Group: FixedWindows(size=10000 ms) -> Sessions(gap=10000 ms)",
            "new added step Sum/Group",
            "refused lifting step Sum/Group",
        ],
    ),
    Edit(
        "kind-of-windows-changed-without-data",
        Stream(windows=window.Sessions(10)),
        [
            "kept window_kind step Group: FixedWindows(size=10000 ms) -> Sessions(gap=10000 ms)",
            "new added step Sum/Group",
            "dropped lifting step Sum/Group",
        ],
        data={"group": EMPTY, "lifted": EMPTY},
    ),
    Edit(
        "trigger-changed",
        Stream(trigger=early, sums=False),
        [
            "refused trigger step Group: DefaultTrigger() -> AfterEndOfWindow(early=AfterCount(count=2), late=None)",
        ],
        old=Stream(sums=False),
    ),
    Edit(
        "trigger-that-counts-ends-the-lifting-of-a-combine",
        Stream(trigger=early),
        [
            "kept trigger step Group: DefaultTrigger() -> AfterEndOfWindow(early=AfterCount(count=2), late=None)",
            "new added step Sum/Group",
            "refused lifting step Sum/Group",
        ],
        data={"group": EMPTY},
    ),
    Edit(
        "accumulation-changed",
        Stream(accumulating=True),
        [
            "refused accumulation step Group: discarding -> accumulating",
            "refused accumulation step Sum/Group: discarding -> accumulating",
        ],
    ),
    Edit(
        "lateness-changed",
        Stream(lateness=60),
        [
            "refused lateness step Group: 0 ms -> 60000 ms",
            "refused lateness step Sum/Group: 0 ms -> 60000 ms",
        ],
    ),
    Edit(
        "nullable-field-added-to-rows",
        Stream(row=OrderWithNote),
        [
            "kept fields_added step Deal:  -> note: nullable string",
        ],
        data={"deal": WAITING},
    ),
    Edit(
        "required-field-added-to-rows",
        Stream(row=OrderWithDate),
        [
            "refused coder step Deal: no field -> date: string passes",
        ],
        data={"deal": WAITING},
    ),
    Edit(
        "type-of-a-field-changed",
        Stream(row=OrderInCents),
        [
            "refused coder step Deal: price: int64 -> price: double passes",
        ],
        data={"deal": WAITING},
    ),
    Edit(
        "elements-of-a-create-changed",
        Stream(elements=(1, 3)),
        [
            "kept code_changed source Limits/Impulse:  -> Limits/FlatMap(<lambda at core.py:4094>)",
        ],
    ),
    Edit(
        "side-input-removed",
        Stream(side_read=False),
        [
            "dropped removed side_input Read/python_side_input0: Limits/Map(decode) -> ",
            "dropped removed step Read",
        ],
    ),
    Edit(
        "side-input-of-a-new-create-added-before-another",
        Stream(second_side="Rules"),
        [
            "new added source Rules/Impulse",
            "new added side_input Read/python_side_input0:  -> Rules/Map(decode)",
        ],
    ),
    Edit(
        "side-input-of-an-ended-create-added",
        Stream(second_side="old"),
        [
            "refused input_ended side_input Read/python_side_input0:  -> Again",
        ],
    ),
    Edit(
        "side-input-of-the-stream-added-with-consent",
        Stream(second_side="stream"),
        [
            "new input_started side_input Read/python_side_input0:  -> Ticks agreed",
        ],
        wishes=drop("Read"),
    ),
    Edit(
        "create-of-a-side-input-renamed",
        Stream(side="Bounds"),
        [
            "new added source Bounds/Impulse",
            "new added step Bounds/MaybeReshuffle/Reshuffle",
            "new added side_input Read/python_side_input0:  -> Bounds/Map(decode)",
            "dropped removed side_input Read/python_side_input0: Limits/Map(decode) -> ",
            "dropped removed source Limits/Impulse",
            "dropped removed step Limits/MaybeReshuffle/Reshuffle",
        ],
    ),
    Edit(
        "stateful-step-added",
        Stream(more="stateful"),
        [
            "new added step More",
        ],
    ),
    Edit(
        "source-added",
        Stream(more="source"),
        [
            "new added source More/Impulse",
        ],
    ),
    Edit(
        "source-of-an-earlier-job-in-a-rollback",
        Stream(more="source"),
        [
            "refused ran_before source More/Impulse",
        ],
        wishes=UpdateInstructions(is_rollback=True),
    ),
    Edit(
        "source-that-a-rollback-may-start-again",
        Stream(more="source"),
        [
            "new ran_before source More/Impulse agreed",
        ],
        wishes=UpdateInstructions(drop=frozenset({"More"}), is_rollback=True),
    ),
    Edit(
        "redistribution-of-an-ended-create-added",
        Stream(more="ended"),
        [
            "new input_ended step MoreDeal",
        ],
    ),
    Edit(
        "source-renamed-mapped",
        Stream(source="clock"),
        [
            "kept renamed source clock/ImpulseElement/Impulse: ticks/ImpulseElement/Impulse -> ",
            "kept renamed step clock/GenSequence/Reshuffle: ticks/GenSequence/Reshuffle -> ",
        ],
        wishes=UpdateInstructions({"ticks": "clock"}),
    ),
    Edit(
        "mapping-of-an-unknown-old-name",
        Stream(),
        [
            "refused unknown_old_name mapping Cuont: Cuont -> Count",
        ],
        wishes=UpdateInstructions({"Cuont": "Count"}),
    ),
    Edit(
        "mapping-to-an-unknown-new-name",
        Stream(count_name="Tally"),
        [
            "refused unknown_new_name mapping Count: Count -> Taly",
            "new added step Tally",
            "refused removed step Count:  -> Tally",
        ],
        wishes=UpdateInstructions({"Count": "Taly"}),
    ),
    Edit(
        "mapping-to-a-name-that-another-step-has",
        Stream(),
        [
            "refused two_old_names mapping More: Count -> Count",
            "refused removed step More",
        ],
        old=Stream(more="stateful"),
        wishes=UpdateInstructions({"More": "Count"}),
    ),
    Edit(
        "consent-to-an-unknown-name",
        Stream(),
        [
            "refused unknown_name consent Count/nix",
            "refused unknown_name consent Cuont",
        ],
        wishes=UpdateInstructions(drop=frozenset({"Cuont"}), trust=frozenset({"Count/nix"})),
    ),
]
