"""knees - the algorithm of autosteps: where to cut one thread's stream into segments.

It replays the stream through a set-associative LRU cache. Each line carries the number of the
segment that used it last. The algorithm cuts the stream where a follower would start to miss.

A STEPS miss is the eviction of a line that the current segment has used, because a follower through
the same segment must fetch it again. Misses of the leader do not count. A knee is H STEPS misses,
each at most W instructions after the previous one. A wider gap starts a new knee, but no segment
may collect more than 2H misses. The cut is before the first instruction of the knee. The cache
returns to its state at that moment, and the replay continues there in a new segment. A cut is an
address: each execution of the address is a switch.

Source: S. Harizopoulos, "Staged Database Systems", 2005, section 5.5.2.
"""

import collections


class Geometry:
    def __init__(self, size, ways, line):
        self.size, self.line = size, line
        self.ways = ways if ways else size // line
        self.full = not ways
        self.sets = size // line // self.ways

    def __str__(self):
        return f"{self.size},{'full' if self.full else self.ways},{self.line}"


class Cache:
    """Cache lines with the segment that used them last. Each set is an ordered dictionary, least
    recently used line first.
    """

    def __init__(self, geometry):
        self.geometry = geometry
        self.sets = [collections.OrderedDict() for _ in range(geometry.sets)]

    def copy(self):
        other = Cache.__new__(Cache)
        other.geometry = self.geometry
        other.sets = [ways.copy() for ways in self.sets]
        return other

    def use(self, line, segment):
        """(hit, segment of the evicted line or None)"""
        ways = self.sets[line % self.geometry.sets]
        if line in ways:
            ways[line] = segment
            ways.move_to_end(line)
            return True, None
        gone = ways.popitem(last=False)[1] if len(ways) == self.geometry.ways else None
        ways[line] = segment
        return False, gone


Reference = collections.namedtuple("Reference", "line instruction address")


def references(stream, line_bytes):
    """Cache lines in the order of use, each with the count and address of the first instruction
    that needs it. Consecutive repeats are left out.
    """
    result, last, executed = [], None, 0
    for address, size, instructions in stream.runs:
        first = address // line_bytes
        for line in range(first, (address + size - 1) // line_bytes + 1):
            begin = max(address, line * line_bytes)
            if line != last:
                result.append(
                    Reference(line, executed + instructions * (begin - address) // size, begin)
                )
            last = line
        executed += instructions
    return result


def plain_misses(refs, geometry):
    """Instruction counts at which a thread alone misses, right after the same operation."""
    cache = Cache(geometry)
    for ref in refs:
        cache.use(ref.line, 0)
    return [ref.instruction for ref in refs if not cache.use(ref.line, 0)[0]]


def cold_misses(refs, geometry):
    cache = Cache(geometry)
    return [ref.instruction for ref in refs if not cache.use(ref.line, 0)[0]]


def steps_misses(refs, geometry, cuts):
    """Instruction counts of the STEPS misses if the stream is cut at `cuts`."""
    cache, segment, misses, cuts = Cache(geometry), 0, [], sorted(cuts)
    for ref in refs:
        while segment < len(cuts) and ref.instruction >= cuts[segment]:
            segment += 1
        if cache.use(ref.line, segment)[1] == segment:
            misses.append(ref.instruction)
    return misses


class Result:
    def __init__(self):
        self.addresses = []  # of new cuts, in the order found
        self.cuts = []  # instruction counts of all switches
        self.misses = []  # STEPS misses


def executions(stream, address):
    """Instruction counts at which the instruction at `address` was executed."""
    counts, executed = [], 0
    for begin, size, instructions in stream.runs:
        if begin <= address < begin + size:
            counts.append(executed + instructions * (address - begin) // size)
        executed += instructions
    return counts


class _Segment:
    """The state since the last switch."""

    def __init__(self, number, begin):
        self.number, self.begin = number, begin
        self.knee, self.knee_state, self.last = (
            [],
            None,
            None,
        )  # misses of the knee; cache and reference where it began
        self.misses = []

    def knee_over(self, instruction, width):
        return self.last is None or instruction - self.last > width


def find(stream, geometry, width, height):
    """Cuts the stream, as described at the top of this file."""
    refs, result = references(stream, geometry.line), Result()
    cache, segment, due = Cache(geometry), _Segment(0, 0), []
    i = 0
    while i < len(refs):
        ref = refs[i]
        if due and due[0] <= ref.instruction:
            due = [count for count in due if count > ref.instruction]
            result.cuts.append(ref.instruction)
            result.misses += segment.misses
            segment = _Segment(segment.number + 1, i)
        if _would_miss(cache, ref.line, segment.number):
            if segment.knee_over(ref.instruction, width):
                segment.knee, segment.knee_state = [], (i, cache.copy())
            segment.knee.append(ref.instruction)
            segment.misses.append(ref.instruction)
            segment.last = ref.instruction
            begin = segment.knee_state[0]
            if (
                len(segment.knee) >= height or len(segment.misses) >= 2 * height
            ) and begin > segment.begin:
                result.addresses.append(refs[begin].address)
                result.cuts.append(refs[begin].instruction)
                result.misses += segment.misses[: len(segment.misses) - len(segment.knee)]
                due = sorted(
                    set(due)
                    | {
                        n
                        for n in executions(stream, refs[begin].address)
                        if n > refs[begin].instruction
                    }
                )
                i, cache = begin, segment.knee_state[1]
                segment = _Segment(segment.number + 1, begin)
                continue
        cache.use(ref.line, segment.number)
        i += 1
    result.misses += segment.misses
    return result


def _would_miss(cache, line, segment):
    ways = cache.sets[line % cache.geometry.sets]
    return (
        line not in ways
        and len(ways) == cache.geometry.ways
        and next(iter(ways.values())) == segment
    )
