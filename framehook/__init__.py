"""framehook: a compiler front end for PyTorch that hooks CPython's frame evaluation."""
