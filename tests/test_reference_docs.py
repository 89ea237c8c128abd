"""The reference pages of the documentation are what the code says of itself."""

from __future__ import annotations

import pytest

from tests import reference_docs


@pytest.mark.parametrize("name", reference_docs.PAGES)
def test_a_page_is_written_from_the_code(name: str) -> None:
    """When it is not: `python -m tests.reference_docs`."""
    assert (reference_docs.FOLDER / name).read_text() == reference_docs.PAGES[name]()
