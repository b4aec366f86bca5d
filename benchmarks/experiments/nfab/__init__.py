"""NFA^b: strategies, selectivities and options (SIGMOD 2008, section 6)."""
