#!/usr/bin/env python3
"""prose - checks sentence lengths in documents and in the leading comments of C++ headers.

Usage: prose.py [ROOT] [--statistics]. An offence is a sentence of more than 40 words, or a document
with a mean of more than 18. --statistics prints a row per file.
"""

import re
import statistics
import sys

from source import files, finish, root

LIMIT = 40
MEAN = 18
LABEL = re.compile(r"^(?:[A-Z][a-z]+(?: [a-z]+)?\s{2,}|[A-Z]{2,4}-\w+\s)")


def paragraphs_of_document(text: str):
    """Paragraphs and list items, without code, tables, headings and link targets."""
    text = re.sub(r"```.*?```", "\n\n", text, flags=re.S)
    text = re.sub(r"^\s*(?:\||#).*$", "\n", text, flags=re.M)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    text = re.sub(r"^\s*(?:[-*+]|\d+\.)\s", "\n\n", text, flags=re.M)
    return re.split(r"\n\s*\n", text)


def paragraphs_of_header(text: str):
    """Paragraphs of the leading comment. Each label (Concepts, BP-1 ...) begins a paragraph."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("//"):
            break
        body = line[2:].strip()
        lines += ["", LABEL.sub("", body)] if LABEL.match(body) else [body]
    return re.split(r"\n\s*\n", "\n".join(lines))


def sentences(paragraph: str):
    text = re.sub(r"`[^`]*`", "CODE", " ".join(paragraph.split()))
    text = re.sub(r"\b(e\.g|i\.e|cf|vs|et al|No|sec|fig)\.", r"\1", text)
    for sentence in re.split(r"(?<=[.!?:])[\"')]*\s+(?=[A-Z0-9`*\"(])|;\s+(?=[A-Z])", text):
        words = len(re.findall(r"[\w'/-]*[A-Za-z][\w'/-]*", sentence))
        if words > 1:
            yield words, sentence


def measured(tree):
    """(path, [(words, sentence)]) of every document and header that has a sentence."""
    for path in [*files(tree, ".md"), *files(tree, ".h")]:
        split = paragraphs_of_document if path.suffix == ".md" else paragraphs_of_header
        found = [s for p in split(path.read_text()) for s in sentences(p)]
        if found:
            yield path, found


def main() -> None:
    tree = root()
    offences, rows = [], []
    for path, found in measured(tree):
        name = path.relative_to(tree).as_posix()
        lengths = [n for n, _ in found]
        rows.append((name, lengths))
        offences += [
            f"{name}: {n} words in one sentence; split it: {s[:70]} ..."
            for n, s in found
            if n > LIMIT
        ]
        mean = statistics.mean(lengths)
        if path.suffix == ".md" and mean > MEAN:
            offences.append(f"{name}: {mean:.1f} words in a sentence on average; {MEAN} at most")
    if "--statistics" in sys.argv:
        print(f"{'file':<52}{'sentences':>10}{'mean':>7}{'>25':>6}{'>35':>6}{'longest':>9}")
        for name, n in rows + [("all", [x for _, lengths in rows for x in lengths])]:
            print(
                f"{name:<52}{len(n):>10}{statistics.mean(n):>7.1f}{sum(x > 25 for x in n):>6}"
                f"{sum(x > 35 for x in n):>6}{max(n):>9}"
            )
    finish(offences, "prose")


if __name__ == "__main__":
    main()
