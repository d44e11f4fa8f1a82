"""
Run the tiers of tests one after the other, slowest last; say at the end what ran and what was left out.

Called by ``scripts/test`` with the Python of ``.venv``. Nothing is left out silently: a tier without tests,
or one that was not asked for, is in the table with its reason. Exit code 0 only if one ran and none failed.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

#: pytest's closing line, with or without its frame of equal signs.
CLOSING = re.compile(
    r"^=*\s*((?:no tests ran|\d+ (?:passed|failed|error|skipped|deselected|x)).* in [\d.]+s.*?)\s*=*$"
)
COUNT = re.compile(r"(\d+) (passed|failed|errors?|skipped)\b")


@dataclass(frozen=True, slots=True)
class Tier:
    """
    One row of the table.

    :param name: what ``scripts/test NAME`` calls it.
    :param holds: what it proves, for people.
    :param tests: directory of its tests below the root; none for a tier that is no pytest run.
    :param optimised: run under ``python -O``.
    :param spread: over all cores, each with stores and servers of its own.
    :param limit: seconds after which it is ended and has failed.
    :param without: tests whose names hold this word are left to the tier that is not optimised.
    """

    name: str
    holds: str
    tests: str | None
    optimised: bool = False
    spread: bool = False
    limit: int = 600
    without: str | None = None


TIERS = (
    Tier("lint", "ruff, mypy, import contracts", None),
    Tier("architecture", "floors, light imports, __all__, house", "tests/architecture"),
    Tier("unit", "the core, in milliseconds", "tests/unit", spread=True),
    Tier("unit-O", "the same under python -O", "tests/unit", optimised=True, spread=True),
    Tier("contract", "one suite over every ledger", "tests/contract", spread=True, limit=1200),
    Tier(
        "contract-O",
        "the same under python -O, without Postgres",
        "tests/contract",
        optimised=True,
        spread=True,
        limit=1200,
        without="postgres",
    ),
    Tier("crash", "killed at every point, crowded, cut off", "tests/crash", limit=1800),
    Tier("dags", "the glue and every Dag, without a scheduler", "tests/dags", spread=True, limit=1200),
    Tier("integration", "real Airflows", "tests/integration", limit=3000),
    Tier("packaging", "the wheel in a clean environment", "tests/packaging", limit=1800),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """
    What became of a tier.

    :param result: ``passed``, ``FAILED`` or ``left out``.
    :param words: pytest's closing line, or the reason.
    """

    tier: Tier
    result: str
    seconds: float
    words: str


def why_left_out(tier: Tier, asked: list[str]) -> str | None:
    """Return the reason to leave ``tier`` out, or None."""
    if asked and tier.name not in asked:
        return "not asked for"
    if tier.tests is not None and not any((ROOT / tier.tests).rglob("test_*.py")):
        return f"{tier.tests} holds no test file"
    return None


def command(tier: Tier) -> list[str]:
    """Return the command line of ``tier``."""
    if tier.tests is None:
        return [str(ROOT / "scripts" / "lint")]
    optimised = ["-O"] if tier.optimised else []
    spread = ["-n", "auto"] if tier.spread else []
    without = [] if tier.without is None else ["-k", f"not {tier.without}"]
    return [sys.executable, *optimised, "-m", "pytest", "-q", *spread, *without, tier.tests]


def run(tier: Tier) -> Outcome:
    """Run ``tier`` in a process group of its own, showing its output as it comes."""
    line = command(tier)
    began = time.monotonic()
    process = subprocess.Popen(
        line, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    timed_out = threading.Event()

    def end() -> None:
        timed_out.set()
        end_group(process)

    watch = threading.Timer(tier.limit, end)
    watch.start()
    closing = ""
    try:
        for text in process.stdout or ():
            print(text, end="", flush=True)
            if match := CLOSING.match(text.strip()):
                closing = match.group(1)
        code = process.wait()
    except BaseException:
        end_group(process)
        raise
    finally:
        watch.cancel()
    seconds = time.monotonic() - began
    if timed_out.is_set():
        return Outcome(tier, "FAILED", seconds, f"ended after its limit of {tier.limit} s")
    return Outcome(tier, "passed" if code == 0 else "FAILED", seconds, closing or f"exit code {code}")


def end_group(process: subprocess.Popen[str]) -> None:
    """Ask the process group of ``process`` to end, and insist after ten seconds."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            continue


def table(outcomes: list[Outcome]) -> str:
    """Return the summary as text."""
    lines = [f"{'tier':<13} {'result':<9} {'seconds':>7}  "]
    for outcome in outcomes:
        row = f"{outcome.tier.name:<13} {outcome.result:<9} {outcome.seconds:>7.1f}"
        lines.append(f"{row}  {outcome.words}  ({outcome.tier.holds})")
    return "\n".join(lines)


def totals(outcomes: list[Outcome]) -> str:
    """Return pytest's counts summed over all tiers, as one closing line."""
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for outcome in outcomes:
        for number, word in COUNT.findall(outcome.words):
            counts["failed" if word.startswith("error") else word] += int(number)
    return f"tests: {counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped"


def main(argv: list[str]) -> int:
    """Run from the command line; the arguments are names of tiers."""
    parser = argparse.ArgumentParser(
        prog="scripts/test", description="Run all tiers of tests, or the named ones."
    )
    parser.add_argument("tiers", nargs="*", metavar="TIER", help=", ".join(tier.name for tier in TIERS))
    asked = parser.parse_args(argv).tiers
    if unknown := sorted(set(asked) - {tier.name for tier in TIERS}):
        parser.error(
            f"no such tier: {', '.join(unknown)}; there are {', '.join(tier.name for tier in TIERS)}"
        )
    outcomes: list[Outcome] = []
    for tier in TIERS:
        if reason := why_left_out(tier, asked):
            outcomes.append(Outcome(tier, "left out", 0.0, reason))
            continue
        print(f"\n--- {tier.name}: {tier.holds}", flush=True)
        outcomes.append(run(tier))
    print(f"\n{table(outcomes)}")
    failed = [outcome.tier.name for outcome in outcomes if outcome.result == "FAILED"]
    ran = [outcome for outcome in outcomes if outcome.result != "left out"]
    if failed:
        print(f"failed: {', '.join(failed)}")
    print(totals(outcomes))
    return 1 if failed or not ran else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
