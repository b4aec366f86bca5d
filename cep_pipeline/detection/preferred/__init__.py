"""OUTPUT PREFERRED: one match for each first event, chosen among all of them, or found without the others.

`walk` compares matches that were found, whatever found them. `search` finds the preferred ones under contiguity, and
`sweep` those with lists under skip_till_any_match, where no other match has to be listed.
"""
