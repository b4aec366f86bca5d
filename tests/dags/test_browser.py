"""The pages in a real browser, within Airflow's frame: light and dark, wide and narrow, with the pictures of the docs.

`CEP_PICTURES=docs/pictures` writes the pictures there.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.dags.browser import CHROMIUM, Browser, browser
from tests.dags.test_pages import airflow_app, configuration, match_id  # noqa: F401

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")

REAL = "stream=generated_trades"
SITE = "http://testserver"
VIEWS = {
    "overview": f"/cep/?{REAL}",
    "matches": f"/cep/matches?{REAL}&pattern=accelerating_blocks&day=2025-01-06",
    "match": f"/cep/match?{REAL}&pattern_set=market&day=2025-01-06&match_id=MATCH",
    "plan": f"/cep/plan?{REAL}&pattern_set=market&version=1",
    "statistics": f"/cep/statistics?{REAL}",
    "invariants": f"/cep/invariants?{REAL}",
}
IN_THE_DOCS = ("frame", "match", "matches", "plan")


@pytest.fixture(scope="module")
def tab(airflow_app: Any, configuration: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:  # noqa: F811
    """A browser whose user is logged in to an Airflow that listens on this machine."""
    import uvicorn
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

    os.environ["CEP_CONFIG"] = str(configuration)
    server = uvicorn.Server(uvicorn.Config(airflow_app, host="127.0.0.1", port=0, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    port = server.servers[0].sockets[0].getsockname()[1]
    token = airflow_app.state.auth_manager.generate_jwt(SimpleAuthManagerUser(username="root", role="admin"))
    try:
        with browser(tmp_path_factory.mktemp("chromium"), f"MAP testserver 127.0.0.1:{port}") as opened:
            opened.log_in(SITE, token)
            yield opened
    finally:
        server.should_exit = True
        thread.join()
        os.environ.pop("CEP_CONFIG", None)


def keep(tab: Browser, name: str) -> None:
    """Write the picture of the docs, if they are asked for."""
    folder = os.environ.get("CEP_PICTURES")
    if folder and name in IN_THE_DOCS:
        tab.picture(Path(folder) / f"airflow_{name}.png")


@pytest.mark.parametrize("name", VIEWS)
def test_a_page_is_drawn_and_fits_a_phone_in_light_and_dark(tab: Browser, match_id: str, name: str) -> None:  # noqa: F811
    address = SITE + VIEWS[name].replace("MATCH", match_id)
    colours = []
    for wide, dark in ((1280, False), (1280, True), (390, False)):
        tab.said.clear()
        tab.open(address, wide=wide, dark=dark)
        assert tab.evaluate("document.querySelectorAll('svg').length") > 0
        assert tab.evaluate("document.documentElement.scrollWidth") <= wide, "nothing is cut off, and nothing scrolls"
        assert [one for one in tab.said if "Content Security Policy" in one] == []
        colours.append(tab.evaluate("getComputedStyle(document.querySelector('a')).color"))
        if wide == 1280 and not dark:
            keep(tab, name)
    assert colours[0] == colours[2] != colours[1]


def test_the_navigation_of_airflow_opens_the_pages_in_its_frame(tab: Browser) -> None:
    tab.open(f"{SITE}/plugin/cep")
    inside = "document.querySelector('iframe')?.contentDocument"
    tab.wait(f"{inside}?.querySelector('h1')?.innerText === 'Overview'")
    tab.wait("document.querySelector('img[src^=\"data:image/svg+xml\"]')")
    tab.evaluate(f"{inside}.querySelector('section a').click()")
    tab.wait("location.pathname + location.search === '/plugin/cep/cep/?stream=generated_trades'")
    keep(tab, "frame")
    address = tab.evaluate("location.href")
    tab.open(address)
    tab.wait(f"{inside}?.querySelector('h1')?.innerText === 'generated_trades'")
