"""The detection-adaptation loop (the acep-invariants patent): decision functions, distances, drifting streams."""
