"""Matches without listing them: runs that are merged, counted, and kept as the shared versioned buffer.

References
----------
J. Agrawal et al., "Efficient pattern matching over event streams", SIGMOD 2008, section 5.
"""
