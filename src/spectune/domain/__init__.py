"""VALUES: frozen dataclasses and their invariants. Imports nothing of spectune but errors."""
