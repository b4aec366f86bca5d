"""Plans of all planners on many patterns (PVLDB 2018, section 7)."""
