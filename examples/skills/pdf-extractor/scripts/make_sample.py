#!/usr/bin/env python3
"""Print the sample PDF. For whoever maintains this skill; it is not one of its tools."""

import sys

PAGES = [
    r"(Packing list) Tj 0 -24 Td (Tent \(for two\)) Tj 0 -16 Td [(Ro) -20 (pe, 20 m)] TJ",
    r"(Emergency) Tj 0 -24 Td (Call \061\061\062) Tj",
]


def objects():
    """The body of every object: catalogue, page tree, font, then a page and its text in turn."""
    kids = " ".join(f"{4 + 2 * place} 0 R" for place in range(len(PAGES)))
    yield "<< /Type /Catalog /Pages 2 0 R >>"
    yield f"<< /Type /Pages /Kids [{kids}] /Count {len(PAGES)} >>"
    yield "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"
    for place, text in enumerate(PAGES):
        resources = "<< /Font << /F1 3 0 R >> >>"
        yield (
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Resources {resources}"
            f" /Contents {5 + 2 * place} 0 R >>"
        )
        stream = f"BT /F1 14 Tf 72 720 Td {text} ET"
        yield f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream"


def main():
    pdf, offsets = "%PDF-1.4\n", []
    for number, body in enumerate(objects(), start=1):
        offsets.append(len(pdf))
        pdf += f"{number} 0 obj\n{body}\nendobj\n"
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    size, start = len(offsets) + 1, len(pdf)
    pdf += f"xref\n0 {size}\n0000000000 65535 f \n{table}"
    pdf += f"trailer\n<< /Size {size} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n"
    sys.stdout.write(pdf)


if __name__ == "__main__":
    main()
