"""The Beam Job API server and client, as a library for any runner."""
