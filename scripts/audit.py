"""Known vulnerabilities of the packages that requirements.lock names: pip-audit, or one line where nobody can be asked.

    python scripts/audit.py

Ends with 1 where a package has a known vulnerability that is not in `ACCEPTED`, and says what to do. An index that
cannot be reached, or that knows no vulnerabilities (many mirrors), is no failure: it is said, and nothing was checked.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

LOCK = Path(__file__).resolve().parents[1] / "requirements.lock"
ACCEPTED: dict[str, str] = {}
"""Vulnerability -> why the project lives with it."""
LONGEST_S = 600


def audited(requirements: Path, command: list[str]) -> list[dict[str, Any]] | None:
    """The packages of a lock with their vulnerabilities, as pip-audit tells them; None where it cannot ask."""
    options = ["--require-hashes", "--disable-pip", "--format", "json", "--progress-spinner", "off"]
    try:
        done = subprocess.run(
            [*command, "--requirement", str(requirements), *options],
            capture_output=True,
            text=True,
            timeout=LONGEST_S,
            check=False,
        )
        return list(json.loads(done.stdout)["dependencies"])
    except (OSError, subprocess.TimeoutExpired, ValueError, KeyError):
        return None


def first_package(lock: str) -> str:
    """The first package of a lock with its hashes: whether it is known says whether anybody can be asked."""
    found = re.search(r"^\S+==.*\\\n(?:.*\\\n)*.*", lock, re.M)
    return found[0] + "\n" if found else ""


def say(text: str) -> None:
    """Print a line."""
    sys.stdout.write(f"audit: {text}\n")


def main(lock: Path = LOCK, command: tuple[str, ...] = (sys.executable, "-m", "pip_audit")) -> int:
    """Print what is known; returns the exit code."""
    with tempfile.TemporaryDirectory() as folder:
        probe = Path(folder) / "requirements.txt"
        probe.write_text(first_package(lock.read_text()))
        known = audited(probe, list(command))
    packages = None if known is None or all("skip_reason" in one for one in known) else audited(lock, list(command))
    if packages is None:
        say("no index that knows vulnerabilities can be reached from here; requirements.lock was not checked")
        return 0
    found = [(one, vulnerability) for one in packages for vulnerability in one.get("vulns", [])]
    names = [{vulnerability["id"], *vulnerability.get("aliases", [])} for _, vulnerability in found]
    open_ones = [entry for entry, own in zip(found, names, strict=True) if not own & ACCEPTED.keys()]
    for package, vulnerability in open_ones:
        mended = ", ".join(vulnerability.get("fix_versions", [])) or "no version yet"
        say(f"{package['name']} {package['version']}: {vulnerability['id']}, mended in {mended}")
    skipped = sum("skip_reason" in one for one in packages)
    say(
        f"{len(packages) - skipped} packages of requirements.lock checked, {skipped} unknown to the index, "
        f"{len(open_ones)} vulnerabilities, {len(found) - len(open_ones)} accepted"
    )
    if open_ones:
        say("take a version that mends it (make lock UPGRADE=--upgrade), or name it in ACCEPTED with the reason")
    return 1 if open_ones else 0


if __name__ == "__main__":
    sys.exit(main())
