"""Every peer gives the known counts of the workloads on 10,000 events; one that is not installed is skipped."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from benchmarks.measure import engine_process, write_events
from benchmarks.peers import PEERS, Peer, missing_peers
from benchmarks.streams import Streams
from benchmarks.workloads import WORKLOADS


@pytest.mark.long
@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_a_peer_gives_the_known_counts(peer: Peer, tmp_path: Path) -> None:
    if (why := peer.missing()) is not None:
        pytest.skip(f"{peer.name} {why}")
    known = [name for name in peer.longest if 10_000 in WORKLOADS[name].matches]
    assert len(known) >= 4
    streams = Streams(None)
    for name in known:
        stream = WORKLOADS[name].stream
        events = tmp_path / f"{stream}.arrow"
        if not events.exists():
            write_events(streams.table(stream, 10_000), events)
        with engine_process(partial(peer.start, name, events)) as run:
            measured = run()
        assert (name, measured.matches) == (name, WORKLOADS[name].matches[10_000])
        assert measured.seconds > 0


def test_peers_that_are_missing_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CEP_BENCH_FLINK", raising=False)
    assert "Flink CEP is not here: it needs a JDK and, in CEP_BENCH_FLINK, the folder of its jars" in missing_peers()
