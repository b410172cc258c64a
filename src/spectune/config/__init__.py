"""Study files and option values to domain values."""
