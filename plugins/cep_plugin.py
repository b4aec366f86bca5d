"""The plugin of the pipeline: its pages in Airflow's frame, and a link on each task.

All processes of Airflow load this file, each task among them. The pages themselves (`cep_pages`) are imported by the
API server alone: they need Airflow's own web application, which takes a second to import.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any
from urllib.parse import quote, urlencode

from airflow.plugins_manager import AirflowPlugin
from airflow.sdk import BaseOperatorLink

PREFIX = "/cep"
REPLANNING_DAG = "replanning"
ADAPTATION_DAGS = (REPLANNING_DAG, "invariant_check")
DAGS_OF_A_STREAM = ("daily_detection", "stale_days", *ADAPTATION_DAGS)


class RunPageLink(BaseOperatorLink):
    """The link from a task to the page of its run."""

    name = "CEP run"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """The address of the page; empty for the tasks of other DAGs."""
        if not ti_key.dag_id.startswith(tuple(f"{kind}_" for kind in DAGS_OF_A_STREAM)):
            return ""
        return f"{PREFIX}/dag?{urlencode({'dag_id': ti_key.dag_id, 'run_id': ti_key.run_id})}"


def icon(colour: str) -> str:
    """The icon of the navigation: a series with a match in it."""
    drawing = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24" fill="none" stroke="{colour}" stroke-width="2">'
        '<path d="M2 17l5-6 4 4 6-9 5 5"/><circle cx="7" cy="11" r="2"/><circle cx="17" cy="6" r="2"/></svg>'
    )
    return f"data:image/svg+xml,{quote(drawing)}"


ICONS = {"icon": icon("#51504f"), "icon_dark_mode": icon("#d6d3d1")}


class CepPlugin(AirflowPlugin):
    """The pages in Airflow's frame: an entry of the navigation, a tab on each DAG and DAG run, a link on each task."""

    name = "cep"
    external_views = [  # noqa: RUF012
        {"name": "CEP", "href": f"{PREFIX}/", "destination": "nav", "url_route": "cep", "nav_top_level": True, **ICONS},
        {
            "name": "CEP",
            "href": f"{PREFIX}/dag?dag_id={{DAG_ID}}",
            "destination": "dag",
            "url_route": "cep-dag",
            **ICONS,
        },
        {
            "name": "CEP run",
            "href": f"{PREFIX}/dag?dag_id={{DAG_ID}}&run_id={{RUN_ID}}",
            "destination": "dag_run",
            "url_route": "cep-run",
            **ICONS,
        },
    ]
    global_operator_extra_links = [RunPageLink()]  # noqa: RUF012

    @cached_property
    def fastapi_apps(self) -> list[Any]:  # type: ignore[override]
        """The web application of the pages; the API server alone asks for it."""
        from cep_pages import app

        return [{"app": app, "url_prefix": PREFIX, "name": "CEP pipeline"}]
