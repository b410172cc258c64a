"""Starts, watches and stops servers."""
