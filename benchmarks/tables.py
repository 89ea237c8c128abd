"""Tables and numbers as the documents have them."""

from __future__ import annotations


def table(head: list[str], rows: list[list[str]], link: str) -> str:
    """Every row ends with the file that its figures are from."""
    lines = [[*head, "from"], ["---"] * (len(head) + 1), *([*row, link] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def number(value: float) -> str:
    """Three digits or more."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def percent(share: float, digits: int = 0) -> str:
    return f"{100 * share:.{digits}f} %"
