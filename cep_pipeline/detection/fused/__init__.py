"""The columnar kernel for skip_till_any_match."""
