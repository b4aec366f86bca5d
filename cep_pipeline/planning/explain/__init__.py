"""Plans as text for people, and planners side by side."""
