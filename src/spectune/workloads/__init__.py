"""WORKLOAD: decides every request before the first one is sent. Pure."""
