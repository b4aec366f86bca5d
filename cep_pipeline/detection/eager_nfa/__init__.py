"""The eager NFA of DEBS'15, section 3: every event is tried on every instance when it arrives."""
