"""URNs of resource hints, which describe the machine that a transform prefers. Each value is text."""

from __future__ import annotations

ACCELERATOR = "beam:resources:accelerator:v1"
MIN_RAM_BYTES = "beam:resources:min_ram_bytes:v1"
CPU_COUNT = "beam:resources:cpu_count:v1"
MAX_ACTIVE_BUNDLES_PER_WORKER = "beam:resources:max_active_bundles_per_worker:v1"
