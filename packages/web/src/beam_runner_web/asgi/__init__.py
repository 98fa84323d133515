"""Request handlers for JSON, live pages and the login, and the access control in front of them."""
