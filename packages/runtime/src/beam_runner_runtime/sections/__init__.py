"""Sections: stages that run as one bundle, in many tasks at once, with rows that go through an exchange between them."""
