"""REPORT: answers to text. Pure, returns strings."""
