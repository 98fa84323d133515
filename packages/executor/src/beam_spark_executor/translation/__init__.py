"""From a Beam pipeline to a plan: fused stages, the buffers between them, the sections they run in."""
