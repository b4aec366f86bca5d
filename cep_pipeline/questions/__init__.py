"""Questions about patterns and their matches, which are answered by detection: nothing of detection imports them.

- `match_checks`: why events are a match, or are none; `near_misses`: what each rule of a pattern keeps out;
- `explained_mechanisms`: the mechanism of each pattern, and how its matches are found and counted, in words;
- `composed_statistics`: statistics of patterns that compose others, whose matches have to be detected first.
"""
