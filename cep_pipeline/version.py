"""The version of the project; `pyproject.toml` has the same."""

VERSION = "0.1.0"
