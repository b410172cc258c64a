"""Executes a load plan over HTTP. The tuner's only async package."""
