"""URNs of pipeline requirements; a runner rejects a pipeline with a requirement that the runner
doesn't know.
"""

from __future__ import annotations

REQUIRES_STATEFUL_PROCESSING = "beam:requirement:pardo:stateful:v1"
REQUIRES_BUNDLE_FINALIZATION = "beam:requirement:pardo:finalization:v1"
REQUIRES_STABLE_INPUT = "beam:requirement:pardo:stable_input:v1"
REQUIRES_TIME_SORTED_INPUT = "beam:requirement:pardo:time_sorted_input:v1"
REQUIRES_SPLITTABLE_DOFN = "beam:requirement:pardo:splittable_dofn:v1"
REQUIRES_ON_WINDOW_EXPIRATION = "beam:requirement:pardo:on_window_expiration:v1"
