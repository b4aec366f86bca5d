"""Plans that many patterns share (the MCEP patent, section 6)."""
