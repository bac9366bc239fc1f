// index_content.h - all records of an index, for tests that compare it with a model.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>

#include <lockstep/store.h>
#include "threads/base/try.h"

namespace lockstep {

inline std::map<std::string, std::string> index_content(Store& store, const char* name) {
    std::map<std::string, std::string> content;
    const auto done = store.run([&](Txn& txn) -> Result<void> {
        content.clear();
        Cursor cursor = TRY(store.index(name)).scan(txn);
        while (TRY(cursor.next())) content.emplace(cursor.key(), cursor.value());
        return {};
    });
    EXPECT_TRUE(done) << done.error().text();
    return content;
}

}  // namespace lockstep
