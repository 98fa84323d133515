"""What a splittable DoFn leaves for later is processed in the same bundle."""

from __future__ import annotations

import apache_beam as beam
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.transforms.core import RestrictionProvider
from apache_beam.utils.timestamp import Duration
from tiny_host import TinyHost, new_pipeline


def test_what_a_splittable_dofn_defers_is_resumed_in_the_same_bundle(serve, tmp_path):
    out = tmp_path / "claimed"

    class Ranges(RestrictionProvider):
        def initial_restriction(self, element):
            return OffsetRange(0, 5)

        def create_tracker(self, restriction):
            return OffsetRestrictionTracker(restriction)

        def restriction_size(self, element, restriction):
            return restriction.size()

    class OneAtATime(beam.DoFn):
        def process(self, element, tracker=beam.DoFn.RestrictionParam(Ranges())):  # noqa: B008
            position = tracker.current_restriction().start
            if tracker.try_claim(position):
                yield position
                tracker.defer_remainder(Duration(0.01))

    def note(position):
        with open(out, "a") as file:
            file.write(f"{position}\n")

    p = new_pipeline()
    p | beam.Impulse() | "Defer" >> beam.ParDo(OneAtATime()) | beam.Map(note)
    host = TinyHost(p)
    host.run(serve(host).harness)
    assert out.read_text().split() == ["0", "1", "2", "3", "4"]
