"""The pattern language: text to checked patterns, and patterns back to canonical text."""
