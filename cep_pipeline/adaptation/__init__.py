"""The plan follows the data: invariants of plans, decision functions, minimal distances, and the loop.

    detect > estimate > decide > plan again > switch (acep-invariants patent, Algorithm 1)

| module | content |
| --- | --- |
| `loop` | `AdaptiveDetection`: its settings, and a run of the loop over one stream |
| `plan_loop` | the patterns that follow one plan, and the report of a run |
| `plan_makers` | the maker of their plans, and what another one gains |
| `event_stream` | reading the stream, and statistics of its latest events |
| `plan_switch`, `loop_outputs` | switching plans without losing matches, output |
| `decisions` | decision functions: static, unconditional, constant threshold, invariants; checks against thresholds |
| `invariants` | the comparisons that have to come out as they did for a plan to stay the best one, and their check |
| `distance` | minimal distances of invariants; `loop` has how one is chosen on a stream |
"""
