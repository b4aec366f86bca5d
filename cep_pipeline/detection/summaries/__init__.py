"""SUMMARIZE: the rows of groups that a statement gives instead of its matches."""
