"""Random programs: source text drawn by hypothesis, run eager and compiled, and compared."""
