"""Plan many patterns at once: find parts that their plans have in common, and share them (MCEP)."""
