"""A llama-server without a build: the real server code of the `xllamacpp` wheel, with llama-server's flags.

Stand-alone: started as `python -m spectune.llama_server`, spoken to over HTTP, imports nothing of spectune.
"""
