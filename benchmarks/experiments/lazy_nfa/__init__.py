"""Eager, chain and tree NFAs when one event type is rare (DEBS 2015, section 7)."""
