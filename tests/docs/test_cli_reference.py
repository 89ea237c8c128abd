from __future__ import annotations

from tests.docs import cli_reference
from tests.servers import ROOT


def test_the_page_of_the_command_line_is_what_the_parser_says() -> None:
    """When it is not: `python -m tests.docs.cli_reference > docs/reference/cli.md`."""
    assert (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8") == cli_reference.render()
