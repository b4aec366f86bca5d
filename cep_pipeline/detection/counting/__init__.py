"""Counts of matches in work that grows with the events, and not with the matches."""
