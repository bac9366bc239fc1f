#!/usr/bin/env python3
"""man_pages.py - writes the manual pages of programs from their own --help, with help2man.

Usage: man_pages.py --version V --out DIRECTORY PROGRAM... Each program gets PROGRAM.1.gz, and each
of its subcommands PROGRAM-SUBCOMMAND.1.gz: those that its --help lists below "Subcommands:".
"""

import argparse
import gzip
import os
import pathlib
import re
import subprocess
import sys

# help2man takes the date of a page from this variable; equal sources then give equal pages.
ENVIRONMENT = dict(os.environ, LC_ALL="C.UTF-8", TZ="UTC")


def fail(text):
    sys.exit(f"man_pages.py: {text}")


def output(command, **more):
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, **more)
    if done.returncode != 0 or not done.stdout:
        fail(f"{' '.join(command)} failed:\n{done.stderr}")
    return done.stdout


def subcommands(help_text):
    """The names and descriptions below the heading "Subcommands:"."""
    block = re.search(r"^Subcommands:\n((?:  .*\n|\n)*)", help_text, re.M)
    return re.findall(r"^  (\S+)(?: +(.*))?$", block.group(1), re.M) if block else []


def title(text):
    """What help2man wants behind the dash: the first clause, without a capital at the begin."""
    line = re.split(r"[.:;](?: |$)", " ".join(text.split("Usage:")[0].split()))[0]
    return line if line[:2].isupper() else line[:1].lower() + line[1:]


def page(program, subcommand, what, version, see_also):
    """The text of one page. help2man runs the first word that it gets in a shell."""
    command = [f"./{program.name}"] + ([subcommand] if subcommand else [])
    name = "-".join([program.name, *command[1:]])
    words = ["help2man", "--no-info", "--section=1", f"--version-string={version}"]
    words += [f"--name={title(what)}", f"--source=Lockstep {version}", " ".join(command)]
    text = output(words, cwd=program.parent)
    # The heading has the program's name alone, and so has the page of each subcommand.
    text = re.sub(r'^\.TH [^"]*', f".TH {name.upper()} ", text, count=1, flags=re.M)
    text = re.sub(r"(^\.SH NAME\n).*? \\- ", rf"\g<1>{name} \\- ", text, count=1, flags=re.M)
    if see_also:
        pages = ",\n".join(f".BR {other} (1)" for other in see_also).replace(",\n", " ,\n")
        text += f'.SH "SEE ALSO"\n{pages}\n'
    return name, text


def write(directory, name, text):
    with open(directory / f"{name}.1.gz", "wb") as file:
        # Without time and name: equal pages give equal files.
        with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed:
            packed.write(text.encode())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--version", required=True, help="version of the programs")
    parser.add_argument("--out", required=True, type=pathlib.Path, help="directory of the pages")
    parser.add_argument("programs", nargs="+", type=pathlib.Path)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for old in options.out.glob("*.1.gz"):
        old.unlink()
    for program in (p.resolve() for p in options.programs):
        text = output([str(program), "--help"])
        parts = subcommands(text)
        others = [f"{program.name}-{part}" for part, _ in parts]
        what = text if not text.startswith("Usage") else program.name
        write(options.out, *page(program, "", what, options.version, others))
        for part, description in parts:
            see_also = [program.name]
            write(options.out, *page(program, part, description, options.version, see_also))


if __name__ == "__main__":
    main()
