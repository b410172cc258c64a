"""Finds, proves and applies the best speculative-decoding settings for an LLM server and its traffic."""

__all__ = ["__version__"]

__version__ = "0.1.0"
