"""Addresses that answer: JSON, live pages, the login, and the guards around them."""
