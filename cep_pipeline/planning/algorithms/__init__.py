"""The planners of one pattern. Each takes the numbers of a clause and a cost model."""
