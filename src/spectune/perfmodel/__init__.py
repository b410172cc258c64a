"""MODEL: measurements to predictions with uncertainty. Pure."""
