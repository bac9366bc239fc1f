// labels: unit
// gid_text_test.cc - gids as operators read and type them.
#include "sm/observe/gid_text.h"

#include <gtest/gtest.h>

#include <lockstep/prepared.h>

namespace lockstep::sm::gid_text_test {

TEST(GidText, EachGidCanBeReadBack) {
    std::string all;
    for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
    for (const std::string& gid : {std::string("plain 7"), all.substr(0, kGidBytesMax),
                                   all.substr(256 - kGidBytesMax), std::string("\\x41\"")}) {
        const std::string text = gid_text(gid);
        for (const char c : text) EXPECT_TRUE(c >= 0x20 && c < 0x7f) << text;
        EXPECT_EQ(gid_of_text(text), gid) << text;
    }
    EXPECT_EQ(gid_text("plain 7"), "plain 7");
    EXPECT_EQ(gid_text(std::string("a\0b", 3)), "a\\x00b");
    EXPECT_EQ(gid_of_text("\\x4A\\x4b"), "JK");
}

TEST(GidText, WhatIsNoTextIsRefused) {
    for (const std::string& text :
         {std::string(), std::string("\\"), std::string("\\x"), std::string("\\x4"),
          std::string("\\y00"), std::string("\\xg0"), std::string(kGidBytesMax + 1, 'x')})
        EXPECT_FALSE(gid_of_text(text)) << text;
}

}  // namespace lockstep::sm::gid_text_test
