"""The phases of Beam's pipeline translation that create stages, for tests that run the engine
themselves.
"""

from __future__ import annotations

from apache_beam.runners.portability.fn_api_runner import translations

FUSING = (
    translations.annotate_downstream_side_inputs,
    translations.fix_side_input_pcoll_coders,
    translations.pack_combiners,
    translations.lift_combiners,
    translations.expand_sdf,
    translations.expand_gbk,
    translations.sink_flattens,
    translations.greedily_fuse,
    translations.read_to_impulse,
    translations.impulse_to_input,
    translations.sort_stages,
    translations.add_impulse_to_dangling_transforms,
)
