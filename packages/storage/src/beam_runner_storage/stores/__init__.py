"""Data stores: where what is committed lies where machines share no folder."""
