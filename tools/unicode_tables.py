#!/usr/bin/env python3
"""Writes weft/store/unicode_tables.cpp from Python's unicodedata (its version is in the file)."""

import pathlib
import subprocess
import unicodedata

ALL = [chr(code) for code in range(0x110000)]


def ranges(values):
    """Runs of equal values that are not None: (first, last, value)."""
    result = []
    for code, value in enumerate(values):
        if value is None:
            continue
        if result and result[-1][1] == code - 1 and result[-1][2] == value:
            result[-1][1] = code
        else:
            result.append([code, code, value])
    return result


def category(first):
    return ranges([1 if unicodedata.category(c)[0] == first else None for c in ALL])


def decompositions():
    """(code, first, second or 0, whether the pair is composed again); Hangul is arithmetic."""
    rows = []
    for code, c in enumerate(ALL):
        text = unicodedata.decomposition(c)
        if not text or text.startswith('<'):
            continue
        parts = [int(part, 16) for part in text.split()]
        composes = len(parts) == 2 and unicodedata.normalize('NFC', c) == c
        rows.append((code, parts[0], parts[1] if len(parts) == 2 else 0, int(composes)))
    return rows


def unsafe_for_nfc(rows):
    """What NFC may change or join to what stands before it."""
    joins = {second for _, _, second, composes in rows if composes}
    joins |= set(range(0x1161, 0x1176)) | set(range(0x11A8, 0x11C3))
    return ranges([1 if (unicodedata.combining(c) or code in joins or
                         not unicodedata.is_normalized('NFC', c)) else None
                   for code, c in enumerate(ALL)])


def table(kind, name, rows):
    text = ', '.join('{' + ', '.join(f'0x{n:X}' for n in row) + '}' for row in rows)
    return (f'constexpr std::array<{kind}, {len(rows)}> k{name}Rows = {{{{{text}}}}};\n\n')


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    pairs = decompositions()
    tables = [
        ('CodeRange', 'Letter', [row[:2] for row in category('L')], 'letter_ranges'),
        ('CodeRange', 'Number', [row[:2] for row in category('N')], 'number_ranges'),
        ('CodeRange', 'Unsafe', [row[:2] for row in unsafe_for_nfc(pairs)], 'nfc_unsafe_ranges'),
        ('CombiningRange', 'Combining',
         ranges([unicodedata.combining(c) or None for c in ALL]), 'combining_ranges'),
        ('Decomposition', 'Decomposition', pairs, 'decompositions'),
    ]
    text = ('// Made by tools/unicode_tables.py from version ' + unicodedata.unidata_version +
            ' of the Unicode database. Do not edit.\n#include "weft/store/unicode_tables.h"\n\n'
            '#include <array>\n\nnamespace weft {\n\nnamespace {\n\n')
    text += ''.join(table(kind, name, rows) for kind, name, rows, _ in tables)
    text += '}  // namespace\n\n'
    for kind, name, _, function in tables:
        text += f'std::span<const {kind}> {function}() {{\n  return k{name}Rows;\n}}\n\n'
    text += '}  // namespace weft\n'
    path = root / 'weft/store/unicode_tables.cpp'
    path.write_text(text)
    subprocess.run(['clang-format', '-i', str(path)], check=True)


if __name__ == '__main__':
    main()
