"""The examples of these pages print what the page says, each as the module of its own that it is."""

from __future__ import annotations

import contextlib
import importlib
import io
import re
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = {name: (DOCS / name).read_text() for name in ("workflows.md", "context.md")}

EXAMPLE = re.compile(r"^```python\n# (\w+)\.py\n(.*?)^```\n\n^```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXAMPLES = [example for text in PAGES.values() for example in EXAMPLE.findall(text)]


@pytest.mark.parametrize(("name", "least"), [("workflows.md", 6), ("context.md", 1)])
def test_every_example_says_what_it_prints(name: str, least: int) -> None:
    assert len(EXAMPLE.findall(PAGES[name])) == PAGES[name].count("```python\n") >= least


@pytest.mark.parametrize(("name", "text", "printed"), EXAMPLES, ids=[name for name, _, _ in EXAMPLES])
def test_an_example_prints_what_the_page_says(
    name: str, text: str, printed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = f"page_{name}"
    (tmp_path / f"{module}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    output = io.StringIO()

    try:
        with contextlib.redirect_stdout(output):
            importlib.import_module(module)
    finally:
        sys.modules.pop(module, None)

    assert output.getvalue() == printed
