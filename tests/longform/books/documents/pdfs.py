"""PDFs with lines of text, an outline and facts, written by hand."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping, Sequence


def pdf(
    pages: Sequence[Sequence[str]],
    outline: Sequence[tuple[str, int]] = (),
    info: str = "",
    more: str = "",
    notes: Mapping[int, Sequence[str]] | None = None,
) -> bytes:
    """`outline` has titles with their page, from 0, and `notes` the small lines at its foot. ^1 in a line is raised."""
    count = len(pages)
    first_mark = 4 + 2 * count
    objects = [
        f"<< /Type /Catalog /Pages 2 0 R /Lang (en-GB) {f'/Outlines {first_mark} 0 R' if outline else ''} >>".encode(),
        f"<< /Type /Pages /Count {count} /Kids [{' '.join(f'{4 + 2 * i} 0 R' for i in range(count))}] >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
    ]
    for number, lines in enumerate(pages):
        objects.append(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 400 600] /Resources << /Font << /F1 3 0 R >> >>"
            f" /Contents {5 + 2 * number} 0 R >>".encode()
        )
        shown = "".join(f"({_raised(_escaped(line))}) Tj T*\n" for line in lines)
        foot = "".join(f"({_escaped(line)}) Tj T*\n" for line in (notes or {}).get(number, ()))
        content = f"BT /F1 7 Tf 8 TL 40 60 Td\n{foot}ET BT /F1 10 Tf 12 TL 40 560 Td\n{shown}ET"
        stream = zlib.compress(content.encode("cp1252"))
        objects.append(b"<< /Length %d /Filter /FlateDecode >>\nstream\n%s\nendstream" % (len(stream), stream))
    if outline:
        last = first_mark + len(outline)
        objects.append(f"<< /Type /Outlines /First {first_mark + 1} 0 R /Last {last} 0 R >>".encode())
        for number, (title, page) in enumerate(outline, first_mark + 1):
            near = (f"/Prev {number - 1} 0 R " if number > first_mark + 1 else "") + (
                f"/Next {number + 1} 0 R" if number < last else ""
            )
            place = f"/Dest [{4 + 2 * page} 0 R /Fit]"
            objects.append(f"<< /Title ({_escaped(title)}) /Parent {first_mark} 0 R {place} {near} >>".encode())
    objects.append(f"<< {info} >>".encode())
    return _written(objects, more)


def _raised(text: str) -> str:
    return re.sub(r"\^(\d+)", r") Tj /F1 6 Tf 3 Ts (\1) Tj 0 Ts /F1 10 Tf (", text)


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")


def _written(objects: Sequence[bytes], more: str) -> bytes:
    out = b"%PDF-1.4\n"
    places = []
    for number, content in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    size = len(objects) + 1
    trailer = f"<< /Size {size} /Root 1 0 R /Info {size - 1} 0 R {more} >>"
    end = f"xref\n0 {size}\n0000000000 65535 f \n{table}trailer\n{trailer}\nstartxref\n{len(out)}\n%%EOF\n"
    return out + end.encode()
