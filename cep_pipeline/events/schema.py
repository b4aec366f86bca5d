"""`StreamSchema`: what the events of a stream are, whatever file they come from.

The source layout (files, columns, time zone, key, derived attributes) stands in `events/source.py` and is part of
the same YAML file.
"""
