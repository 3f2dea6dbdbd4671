"""Symbolic values: what the tracer holds in place of real objects, a file per family."""
