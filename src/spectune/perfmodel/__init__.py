"""MODEL: measurements → prediction with uncertainty. Pure: no clock, no I/O, randomness is handed in."""
