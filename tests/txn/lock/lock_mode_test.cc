// labels: unit
// lock_mode_test.cc - the algebra of lock modes against the textbook's tables, written out.
#include "txn/lock/lock_mode.h"

#include <gtest/gtest.h>

#include <string>

namespace lockstep::txn::lock_mode_test {

using enum LockMode;

// Gray & Reuter, table 7.11 with the update mode's asymmetry: rows requested, columns granted.
constexpr LockMode kTable[] = {IS, IX, S, SIX, U, X};
constexpr bool kMayGrant[6][6] = {
    //         IS     IX     S      SIX    U      X
    /* IS  */ {true, true, true, true, true, false},
    /* IX  */ {true, true, false, false, false, false},
    /* S   */ {true, false, true, false, false, false},
    /* SIX */ {true, false, false, false, false, false},
    /* U   */ {true, false, true, false, false, false},
    /* X   */ {false, false, false, false, false, false},
};

TEST(LockMode, GranularModesAsInTheTextbook) {
    for (int requested = 0; requested < 6; ++requested)
        for (int granted = 0; granted < 6; ++granted)
            EXPECT_EQ(compatible(kTable[requested], kTable[granted]), kMayGrant[requested][granted])
                << lock_mode_name(kTable[requested]) << " on " << lock_mode_name(kTable[granted]);
}

TEST(LockMode, OnlyUpdateIsAsymmetric) {
    for (LockMode a : kTable)
        for (LockMode b : kTable)
            if (compatible(a, b) != compatible(b, a)) {
                EXPECT_TRUE((a == U && b == S) || (a == S && b == U));
            }
    EXPECT_TRUE(compatible(U, S));
    EXPECT_FALSE(compatible(S, U));
}

TEST(LockMode, KeysAndGapsAreIndependent) {
    for (LockMode key : {S, U, X})
        for (LockMode gap : {gap_read, gap_insert}) {
            EXPECT_TRUE(compatible(key, gap));
            EXPECT_TRUE(compatible(gap, key));
        }
    EXPECT_TRUE(compatible(gap_read, gap_read));
    // Two inserts into one gap do not disturb each other.
    EXPECT_TRUE(compatible(gap_insert, gap_insert));
    EXPECT_FALSE(compatible(gap_insert, gap_read));
    EXPECT_FALSE(compatible(gap_read, gap_insert));
    EXPECT_FALSE(compatible(key_scan, key_insert));
    EXPECT_TRUE(compatible(key_scan, key_scan));
}

TEST(LockMode, SetsConflictAsTheirMembersDo) {
    for (unsigned a = 0; a < 128; ++a)
        for (unsigned b = 0; b < 128; ++b) {
            bool expected = true;
            for (unsigned x = 1; x < 128; x <<= 1)
                for (unsigned y = 1; y < 128; y <<= 1)
                    if ((a & x) && (b & y))
                        expected = expected &&
                                   compatible(static_cast<LockMode>(x), static_cast<LockMode>(y));
            ASSERT_EQ(compatible(static_cast<LockMode>(a), static_cast<LockMode>(b)), expected)
                << a << " " << b;
        }
}

TEST(LockMode, CoversIsWhatHoldingAllows) {
    // Rows held, columns wanted.
    constexpr bool kCovers[6][6] = {
        //         IS     IX     S      SIX    U      X
        /* IS  */ {true, false, false, false, false, false},
        /* IX  */ {true, true, false, false, false, false},
        /* S   */ {true, false, true, false, false, false},
        /* SIX */ {true, true, true, true, false, false},
        /* U   */ {true, false, true, false, true, false},
        /* X   */ {true, true, true, true, true, true},
    };
    for (int held = 0; held < 6; ++held)
        for (int wanted = 0; wanted < 6; ++wanted)
            EXPECT_EQ(covers(kTable[held], kTable[wanted]), kCovers[held][wanted])
                << lock_mode_name(kTable[held]) << " for " << lock_mode_name(kTable[wanted]);
    EXPECT_FALSE(covers(X, gap_read));
    EXPECT_FALSE(covers(gap_insert, gap_read));
    EXPECT_TRUE(covers(key_insert, S));
    EXPECT_TRUE(covers(none, none));
}

// What a covered mode would forbid others, the covering one forbids too: otherwise skipping the
// request would be wrong.
TEST(LockMode, CoveringModesConflictAtLeastAsMuch) {
    for (unsigned held = 0; held < 128; ++held)
        for (unsigned wanted = 0; wanted < 128; ++wanted) {
            if (!covers(static_cast<LockMode>(held), static_cast<LockMode>(wanted))) continue;
            for (unsigned other = 1; other < 128; other <<= 1)
                if (!compatible(static_cast<LockMode>(other), static_cast<LockMode>(wanted))) {
                    EXPECT_FALSE(
                        compatible(static_cast<LockMode>(other), static_cast<LockMode>(held)));
                }
        }
}

TEST(LockMode, Names) {
    EXPECT_STREQ(lock_mode_name(none), "none");
    EXPECT_STREQ(lock_mode_name(SIX), "SIX");
    EXPECT_STREQ(lock_mode_name(key_scan), "S+gap_read");
    EXPECT_STREQ(lock_mode_name(key_insert), "X+gap_insert");
    EXPECT_EQ(std::string(lock_mode_name(static_cast<LockMode>(127))),
              "SIX+IS+U+X+gap_read+gap_insert");
}

}  // namespace lockstep::txn::lock_mode_test
