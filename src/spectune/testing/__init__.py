"""Shipped test parts: fakes for the seams, contract suites."""
