"""The pipeline of a day, from raw files to matches: configuration, steps, runs over many days."""
