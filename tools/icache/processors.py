"""processors - first-level instruction caches of processors from 1993 to today, with the document
that states each size. The thesis's figure 5-2b ends in 2005.
"""

# year, processor, KB, ways (1: direct mapped), source
CACHES = [
    (1993, "Pentium", 8, 2, "Intel, Pentium Processor Family Developer's Manual, 241428"),
    (1995, "Pentium Pro", 8, 4, "Intel, Pentium Pro Family Developer's Manual, 242690"),
    (1995, "UltraSPARC", 16, 2, "Tremblay, O'Connor, UltraSPARC I, IEEE Micro 16(2), 1996"),
    (1998, "Alpha 21264", 64, 2, "Compaq, Alpha 21264 Hardware Reference Manual, EC-RJRZA"),
    (1999, "Pentium III", 16, 4, "the thesis, table 5-1"),
    (2001, "POWER4", 64, 1, "Tendler et al., IBM J. Res. Dev. 46(1), 2002"),
    (2001, "AthlonXP", 64, 2, "the thesis, table 5-1"),
    (2004, "POWER5", 64, 2, "Sinharoy et al., IBM J. Res. Dev. 49(4/5), 2005"),
    (2006, "Core 2", 32, 8, "Intel, Optimization Reference Manual, 248966"),
    (2010, "POWER7", 32, 4, "Sinharoy et al., IBM J. Res. Dev. 55(3), 2011"),
    (2011, "Sandy Bridge", 32, 8, "Intel, Optimization Reference Manual, 248966"),
    (2012, "Cortex-A57", 48, 3, "Arm, Cortex-A57 Technical Reference Manual, DDI 0488"),
    (2015, "Skylake", 32, 8, "Intel, Optimization Reference Manual, 248966"),
    (2017, "Zen", 64, 4, "AMD, Software Optimization Guide for Family 17h, 55723"),
    (2019, "Neoverse N1", 64, 4, "Arm, Neoverse N1 Technical Reference Manual, 100616"),
    (2020, "Zen 3", 32, 8, "AMD, Software Optimization Guide for Family 19h, 56665"),
    (2020, "Apple M1", 192, 6, "Apple's sysctl hw.perflevel0.l1icachesize: 196608; ways: measured"),
    (2022, "Zen 4", 32, 8, "AMD, Software Optimization Guide for Zen 4, 57647"),
    (2023, "Neoverse V2", 64, 4, "Arm, Neoverse V2 Technical Reference Manual, 102375"),
    (2024, "Zen 5", 32, 8, "AMD, Software Optimization Guide for Zen 5, 58455"),
]
