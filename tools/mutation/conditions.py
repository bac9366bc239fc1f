"""conditions - mutants that are wrong only in some circumstances.

A plain mutant is wrong each time, so nearly any test notices it. Faults that escape tests are wrong
the second time, at the last value, or after a wait. A condition makes a mutant one of these:

  2nd, 3rd, 8th time    from that execution on, counted in the process
  next round            not in the first round of the loop around it
  last round            only in the last round of the loop around it
  edge                  only where a relation of the `if` around it holds by one
  after a wait          only if its user thread has waited since it came here before"""

import bisect
import random
import re

from mutation.switched import end_of_statement
from mutation.tokens import tokenize

TIMES = {"2nd time": 2, "3rd time": 3, "8th time": 8}
# What can be evaluated once more: names, members and sizes.
PURE = re.compile(r"[A-Za-z_]\w*(?:(?:\.|->|::)[A-Za-z_]\w*(?:\(\))?)*|[0-9]+")
CHANGING = re.compile(r"(?:next|now|pop|take|begin|lock|load|fetch\w*|end)\(\)")
MARK = "LOCKSTEP_MUTATED(%d)"


def pure(text):
    return PURE.fullmatch(text) is not None and not CHANGING.search(text)


class Conditions:
    """Of the mutants of one source."""

    def __init__(self, name, text):
        self.name, self.text, self.t = name, text, tokenize(text)
        self.begins = [token.begin for token in self.t]

    def span(self, first, last):
        return self.text[self.t[first].begin : self.t[last].end] if first <= last else ""

    def body_end(self, i):
        """The last token of the statement behind the condition in bracket i."""
        return end_of_statement(self.t, self.t[i].partner + 1)

    def around(self, at):
        """Brackets of the conditions of loops and ifs whose body has token `at`, inside out."""
        t = self.t
        for i in range(at - 1, 0, -1):
            if t[i].text == "(" and t[i - 1].text in ("for", "if", "while") and t[i].partner < at:
                if t[i].function == t[at].function and self.body_end(i) >= at:
                    yield t[i - 1].text, i

    def loop(self, i):
        """(variable, first value, limit, whether the limit is a value of it) of a loop that counts
        up."""
        text = " ".join(self.span(i + 1, self.t[i].partner - 1).split())
        found = re.fullmatch(
            r"[\w:]+ (\w+) = ([^;,]+)(?:, [^;]*)?; (\w+) (<=?) ([^;&|]+); (?:\+\+\1|\1\+\+)", text
        )
        if found and found[1] == found[3] and pure(found[2]) and pure(found[5]):
            return found[1], found[2], found[5], found[4] == "<="
        return None

    def edge(self, i):
        """Holds where the first relation between values in the condition does so by one."""
        text = " ".join(self.span(i + 1, self.t[i].partner - 1).split())
        for part in re.split(r"&&|\|\||;", text):
            found = re.fullmatch(r"\s*(\S+) (<=?|>=?) (\S+)\s*", part)
            if found and pure(found[1]) and pure(found[3]):
                low, high = found[1], found[3]
                if found[2][0] == ">":
                    low, high = high, low
                return f"({low}) == ({high})" if "=" in found[2] else f"({low}) + 1 == ({high})"
        return None

    def of(self, mutant):
        """{condition: what stands for MARK}"""
        at = bisect.bisect_left(self.begins, mutant.begin)
        found = {name: f"LOCKSTEP_MUTATED_FROM(%d, {n})" for name, n in TIMES.items()}
        if self.name.endswith(".cc"):
            found["after a wait"] = "LOCKSTEP_MUTATED_AFTER_WAIT(%d)"
        for word, i in self.around(at):
            if word == "for" and (loop := self.loop(i)) and "last round" not in found:
                variable, first, limit, inclusive = loop
                found["next round"] = f"LOCKSTEP_MUTATED_IF(%d, ({variable}) != ({first}))"
                last = variable if inclusive else f"{variable} + 1"
                found["last round"] = f"LOCKSTEP_MUTATED_IF(%d, ({last}) == ({limit}))"
            elif word == "if" and "edge" not in found and (edge := self.edge(i)):
                found["edge"] = f"LOCKSTEP_MUTATED_IF(%d, {edge})"
        return found


def conditional(name, text, mutants, seed):
    """The mutants of a source, each with one of the conditions that are possible where it is."""
    conditions = Conditions(name, text)
    for mutant in mutants:
        possible = conditions.of(mutant)
        # Those that need a place of their own are rare, so they come first.
        rare = [c for c in possible if c not in TIMES and c != "after a wait"]
        draw = random.Random(f"{seed} {name} {mutant.begin} {mutant.kind} {mutant.after}")
        choice = draw.choice(rare if rare and draw.random() < 0.6 else sorted(possible))
        mutant.source = mutant.source.replace(MARK, possible[choice])
        mutant.kind += f", {choice}"
    return mutants
