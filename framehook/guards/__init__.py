"""Guards: what must hold for a cache entry to be valid, how that becomes a C++ program, and how it is said."""
