"""How many numbers kernels compare at a time."""

WIDTH = 16
"""Doubles compared at a time: columns need as many readable elements behind their end."""
