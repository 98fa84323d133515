"""Data stores for committed files of machines that share no folder."""
