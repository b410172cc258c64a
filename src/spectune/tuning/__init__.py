"""The loop: plan, run a trial, remember, until the planner stops."""
