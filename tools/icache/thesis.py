"""thesis - the results that the thesis states (S. Harizopoulos, "Staged Database Systems", 2005,
chapter 5). The report compares them with ours.
"""

# Tables 5-1 and 5-3: the processors and the system.
PROCESSORS = [
    ["AthlonXP (thesis)", "64 KB + 64 KB", "2 ways / 64 bytes", "256 KB"],
    ["Pentium III (thesis)", "16 KB + 16 KB", "4 ways / 32 bytes", "256 KB"],
]
SYSTEM = {
    "processor": "AthlonXP, 2 GB of memory, Linux 2.4.20",
    "storage": "one 120 GB main disk, one 30 GB log disk",
    "buffer pool": "up to 2 GB",
    "page size": "8192 bytes",
    "locks": "record, page, table, database; two-phase locking",
    "commit": "does not wait for the log",
}

# Index fetch in Shore on the AthlonXP.
FETCH = {
    "footprint": "45 KB",
    "per extra thread": "STEPS 33 misses; serial 985 cold, 373 warm",
    "a": 0.373,
    "beta": 0.033,
    "reduction at 10": "82 - 87%",
    "reduction at 100": "90 - 96%",
    "speed-up at 10": "1.31 against warm, 1.41 against cold",
    "instructions": "+1.7%",
    "branches": "+1.3%",
    "mispredicted": "-64%",
    "L1-D": "grows with the team; up to 4 threads as good as one; +109% on the Pentium III",
}
UPDATE = {"a": 0.35, "beta": 0.044}
MODEL = {"fetch": FETCH, "update": UPDATE}

PENTIUM = {"L1-I": "-66% of at most 90%", "time": "1.24"}
SWEEP = "up to 89% of a possible 90%, at 8 ways and 32 or 64 KB; every capacity miss gone"
PADDING = "almost the same reduction with a switch 25 times as large (2 KB)"

PAYMENT = {
    "L1-I": "-60 - 65%",
    "mispredicted": "-41 - 45%",
    "speed-up": "1.16 - 1.39",
    "L1-D": "a little more",
    "L2": "fewer, I and D",
}
MIX4 = {"L1-I": "-56%", "bound": "77%", "out": 4.3, "ready": 14}
# Table 5-4: threads that enter a team and that leave in it, by warehouses.
TABLE_5_4 = {
    "average": {10: (8.6, 6.9), 20: (15.9, 12.3), 30: (26.4, 20.4)},
    "ready": {10: 15, 20: 28, 30: 48.4},
    "fetch (customer)": {10: (8.6, 8.6), 20: (16, 16), 30: (25.2, 24.7)},
    "fetch (district)": {10: (8.9, 1.7), 20: (16.2, 2.6), 30: (31.7, 5.3)},
    "fetch (warehouse)": {10: (8.9, 0.5), 20: (16.6, 1), 30: (30, 1.9)},
    "scan": {10: (9.4, 8.2), 20: (16, 14.3), 30: (26.2, 23.7)},
    "insert (history)": {10: (7.9, 7.8), 20: (14.9, 14.6), 30: (24, 23.2)},
    "update": {10: (7.5, 7.2), 20: (14, 12.3), 30: (21.6, 19)},
}
AUTOSTEPS = {
    "points": "3 points, 7 switches, where 16 were placed by hand (W 200, H 4)",
    "misses": "a little more than by hand, far fewer than without",
    "time": "almost that of the manual set",
}
