"""What a pattern means, frozen and validated: expressions, conditions, structure, and the normal form by clauses."""
