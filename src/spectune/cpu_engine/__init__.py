"""The embedded engine: a small OpenAI-compatible server. Imports nothing of spectune."""
