"""Patterns, frozen and validated: expressions, conditions, structure, and the normal form by clauses."""
