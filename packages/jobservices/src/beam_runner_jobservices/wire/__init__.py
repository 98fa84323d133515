"""The border to Beam's protos: messages become records here, and records messages."""
