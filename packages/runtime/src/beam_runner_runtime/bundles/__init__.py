"""What runs inside worker processes: one bundle of one stage at a time."""
