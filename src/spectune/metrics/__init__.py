"""MEASUREMENT: raw records to numbers. Pure."""
