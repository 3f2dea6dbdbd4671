"""Seeing what happens: counters and logs, both fed by events."""
