"""
How long Airflow takes to parse a workflow of 300 steps, and a plain Dag of the same shape.

In a process of its own that has imported everything: what is measured is the file, executed and serialised as
the Dag processor does it. The two take turns.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

__all__ = ["SHAPES", "main", "write_files"]

SHAPES = ("louver", "plain")

_WIDTH = 10

_LOUVER = '''
"""An Airflow Dag of the benchmark."""
from louver.definition import Definition, Step
from louver_provider.dag_builder import build_dag


def work(given=None):
    return given


def upstream(number):
    return {{"given": f"step_{{number - {width}}}"}} if number >= {width} else {{}}


dag = build_dag(
    Definition(
        name="parsed_louver",
        version="1.0.0",
        nodes=[
            Step(name=f"step_{{number}}", task="bench:work", deps=upstream(number))
            for number in range({steps})
        ],
    ),
    tasks={{"bench:work": work}},
)
'''

_PLAIN = '''
"""An Airflow Dag of the benchmark."""
from airflow.sdk import DAG, task


def work(given=None):
    return given


with DAG("parsed_plain", schedule=None) as dag:
    done = []
    for number in range({steps}):
        given = [done[number - {width}]] if number >= {width} else []
        done.append(task(task_id=f"step_{{number}}")(work)(*given))
'''


def write_files(folder: Path, *, steps: int) -> dict[str, Path]:
    """The Dag files, by shape: ten chains side by side, each step taking the result of the one before."""
    paths = {}
    for shape, text in zip(SHAPES, (_LOUVER, _PLAIN), strict=True):
        paths[shape] = folder / f"parsed_{shape}.py"
        paths[shape].write_text(text.format(steps=steps, width=_WIDTH))
    return paths


def main(argv: list[str]) -> int:
    """``FOLDER STEPS ROUNDS``: print the seconds of each round as JSON, by shape."""
    from airflow.dag_processing.dagbag import DagBag
    from airflow.serialization.serialized_objects import DagSerialization

    folder, steps, rounds = Path(argv[0]), int(argv[1]), int(argv[2])
    paths = write_files(folder, steps=steps)
    taken: dict[str, list[float]] = {shape: [] for shape in SHAPES}
    for number in range(rounds + 1):
        for shape in SHAPES if number % 2 else reversed(SHAPES):
            began = time.perf_counter()
            bag = DagBag(dag_folder=str(paths[shape]), bundle_path=folder, bundle_name="bench")
            (dag,) = bag.dags.values()
            DagSerialization.to_dict(dag)
            seconds = time.perf_counter() - began
            if bag.import_errors or len(dag.tasks) < steps:
                raise RuntimeError(f"{shape}: {bag.import_errors}")
            # The first of each warms up.
            if number:
                taken[shape].append(seconds)
    print(json.dumps(taken))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
