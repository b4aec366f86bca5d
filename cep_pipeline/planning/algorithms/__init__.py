"""The planners of one pattern, one algorithm a file. Each takes the numbers of a clause and a cost model."""
