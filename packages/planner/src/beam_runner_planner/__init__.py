"""From a Beam pipeline to a plan, and to the scheduler's graph: fused stages, the buffers between them, scripts."""
