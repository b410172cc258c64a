"""PLAN: history to the next trial, or a reason to stop. Pure."""
