"""Airflow and the pages in a real browser: login, forms that start runs, each page in light, in dark and on a phone.

One Airflow serves all tests, without a scheduler: a run that a form has started waits, until the test does its task.

`CEP_PICTURES=docs/pictures` writes the pictures there.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import quote

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
    "run": "/cep/run?stream=trades&run_id=backfill__1&day=2013-10-07",
    "plan": f"/cep/plan?{REAL}&pattern_set=market&version=1",
    "network": f"/cep/plan?{REAL}&pattern_set=follow&version=1",
    "statistics": f"/cep/statistics?{REAL}",
    "invariants": f"/cep/invariants?{REAL}",
    "decisions": "/cep/decisions",
}
NOT_DRAWN = ("plan", "network", "statistics", "invariants", "decisions")
IN_THE_DOCS = ("frame", "match", "matches", "plan", "network", "form")
ROWS = ".scroll > table > tbody > tr"
"""The rows of tables, none of which is a narrow strip of words below each other."""
INSIDE = "document.querySelector('iframe')?.contentDocument"
"""The page in Airflow's frame."""


@pytest.fixture(scope="module")
def airflow_dags(airflow_app: Any, configuration: Path) -> Iterator[None]:  # noqa: F811
    """The DAGs of the configured streams, in Airflow's database."""
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CEP_CONFIG", str(configuration))
        bag = DagBag(os.environ["AIRFLOW__CORE__DAGS_FOLDER"], bundle_name="dags-folder")
        assert bag.import_errors == {}
        DagBundlesManager().sync_bundles_to_db()
        sync_bag_to_db(bag, "dags-folder", None)
        yield


@pytest.fixture(scope="module")
def tab(
    airflow_app: Any,  # noqa: F811
    airflow_dags: None,
    airflow_home: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Browser]:
    """A browser whose user has logged in to an Airflow that listens on this machine."""
    import uvicorn

    server = uvicorn.Server(uvicorn.Config(airflow_app, host="127.0.0.1", port=0, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    port = server.servers[0].sockets[0].getsockname()[1]
    passwords = json.loads((airflow_home / "simple_auth_manager_passwords.json.generated").read_text())
    try:
        with browser(tmp_path_factory.mktemp("chromium"), f"MAP testserver 127.0.0.1:{port}") as opened:
            log_in(opened, passwords["root"])
            yield opened
    finally:
        server.should_exit = True
        thread.join()


def log_in(tab: Browser, password: str) -> None:
    """Ask for a page, which leads to the form of Airflow's login, and on to the page that was asked for."""
    tab.open(f"{SITE}/plugin/cep")
    for given, follows in ((f"not {password}", "/auth/login"), (password, "/plugin/cep")):
        tab.fill("input[name=username]", "root")
        tab.fill("input[name=password]", given)
        tab.click("button[type=submit]")
        if given != password:
            tab.wait("document.body.innerText.includes('Invalid credentials')")
        tab.wait(f"location.pathname === '{follows}'")


def start_run(tab: Browser, values: dict[str, str], within: str = "document") -> Any:
    """Fill in the form of the DAG that is shown, and start a run; returns the run as Airflow has recorded it."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import select

    tab.click("[data-testid=trigger-dag-button]", within)
    for name, value in values.items():
        tab.fill(f"[name=element_{name}]", value, within)
    if within == "document":
        keep(tab, "form")
    tab.click("[data-testid=trigger-dag-submit]", within)
    tab.wait(f"{within}.location.pathname.includes('/runs/manual__')")
    with create_session() as session:
        run = session.scalars(select(DagRun).order_by(DagRun.id.desc())).first()
        assert run is not None
        session.expunge(run)
    assert run.run_id in tab.evaluate(f"decodeURIComponent({within}.location.pathname)")
    assert (run.state, run.triggering_user_name) == ("queued", "root")
    return run


def keep(tab: Browser, name: str) -> None:
    """Write the picture of the docs, if they are asked for."""
    folder = os.environ.get("CEP_PICTURES")
    if folder and name in IN_THE_DOCS:
        tab.picture(Path(folder) / f"airflow_{name}.png")


@pytest.mark.long
@pytest.mark.parametrize("name", VIEWS)
def test_a_page_is_drawn_and_fits_a_phone_in_light_and_dark(tab: Browser, match_id: str, name: str) -> None:  # noqa: F811
    address = SITE + VIEWS[name].replace("MATCH", match_id)
    colours = []
    for wide, dark in ((1280, False), (1280, True), (390, False)):
        tab.said.clear()
        tab.open(address, wide=wide, dark=dark)
        assert (tab.evaluate("document.querySelectorAll('svg').length") > 0) is (name not in NOT_DRAWN)
        assert tab.evaluate("document.documentElement.scrollWidth") <= wide, "nothing is cut off, and nothing scrolls"
        assert (
            tab.evaluate(f"Math.max(0, ...[...document.querySelectorAll('{ROWS}')].map(row => row.offsetHeight))") < 160
        )
        assert [one for one in tab.said if "Content Security Policy" in one] == []
        colours.append(tab.evaluate("getComputedStyle(document.querySelector('a')).color"))
        if wide == 1280 and not dark:
            keep(tab, name)
    assert colours[0] == colours[2] != colours[1]


@pytest.mark.long
def test_the_navigation_of_airflow_opens_the_pages_in_its_frame(tab: Browser) -> None:
    tab.open(f"{SITE}/plugin/cep")
    tab.wait(f"{INSIDE}?.querySelector('h1')?.innerText === 'Overview'")
    tab.wait("document.querySelector('img[src^=\"data:image/svg+xml\"]')")
    tab.evaluate(f"{INSIDE}.querySelector('section a').click()")
    tab.wait("location.pathname + location.search === '/plugin/cep/cep/?stream=generated_trades'")
    keep(tab, "frame")
    address = tab.evaluate("location.href")
    tab.open(address)
    tab.wait(f"{INSIDE}?.querySelector('h1')?.innerText === 'generated_trades'")


@pytest.mark.long
def test_the_pages_follow_the_dark_switch_of_airflow(tab: Browser) -> None:
    """The frame hands its colour scheme on to them, without a script of theirs, whatever the browser prefers."""
    grounds = {}
    for theme in ("dark", "light"):
        tab.open(f"{SITE}/plugin/cep")
        tab.ask("Emulation.setEmulatedMedia", features=[])  # which would count for the pages in the frame too
        tab.evaluate(f"localStorage.setItem('theme', '{theme}')")
        tab.ask("Page.reload")
        tab.wait(f"document.documentElement?.style.colorScheme === '{theme}' && {INSIDE}?.querySelector('h1')")
        grounds[theme] = tab.evaluate(f"getComputedStyle({INSIDE}.body).backgroundColor")
    tab.evaluate("localStorage.removeItem('theme')")
    assert grounds == {"dark": "rgb(13, 17, 23)", "light": "rgb(246, 248, 250)"}


@pytest.mark.long
def test_the_form_of_a_dag_starts_a_run_of_the_day_that_is_filled_in(tab: Browser) -> None:
    from cep_tasks import business_day

    tab.open(f"{SITE}/dags/daily_detection_generated_trades")
    run = start_run(tab, {"day": "2025-01-09"})
    assert run.dag_id == "daily_detection_generated_trades"
    assert run.conf == {"day": "2025-01-09", "pattern_set": None, "end_of_stream": False, "detection_only": False}
    assert business_day({"params": run.conf, "dag_run": run}, "America/New_York") == date(2025, 1, 9)


@pytest.mark.long
def test_replan_now_leads_to_a_form_and_its_run_to_a_decision(tab: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    import cep_tasks

    tab.open(f"{SITE}/plugin/cep/cep/plans?{REAL}")
    tab.click("a[href$='/dags/replanning_generated_trades']", INSIDE)
    tab.wait(f"{INSIDE}?.location.pathname === '/dags/replanning_generated_trades'")
    run = start_run(tab, {"reason": "the market has opened"}, INSIDE)
    assert run.dag_id == "replanning_generated_trades"
    monkeypatch.setattr(cep_tasks, "get_current_context", lambda: {"params": run.conf, "run_id": run.run_id})
    assert cep_tasks.plan_again("generated_trades")["pattern_set"] == "market"
    tab.open(f"{SITE}/cep/decisions?{REAL}")
    row = tab.evaluate("document.querySelector('tbody tr').innerText")
    assert "replanning" in row and "the market has opened; " in row
    led_to = f"/dags/replanning_generated_trades/runs/{quote(run.run_id, safe='')}"
    assert tab.evaluate("document.querySelector('tbody tr td:last-child a').getAttribute('href')") == led_to
