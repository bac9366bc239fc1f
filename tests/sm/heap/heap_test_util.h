// heap_test_util.h - one heap, and its calls with their errors reported.
#pragma once

#include "sm/heap/heap_file.h"

#include <map>
#include <memory>
#include <string>

#include "tests/sm/engine_test_util.h"

namespace lockstep::sm {

class HeapTest : public ::testing::Test {
protected:
    explicit HeapTest(uint32_t workers = 1) : store_(small_options(workers)) {
        store_.on_thread([&] {
            auto first = HeapFile::create(*store_, ObjectId{500});
            ASSERT_OK(first);
            heap_ = std::make_unique<HeapFile>(*store_, ObjectId{500}, *first);
        });
    }
    RecordId insert(txn::Transaction& txn, Slice record) {
        auto id = heap_->insert(txn, record);
        EXPECT_TRUE(id) << id.error().text();
        return id ? *id : RecordId{};
    }
    // Text of the record, or "-" if there is none.
    std::string get(txn::Transaction& txn, RecordId id, Access access = Access::read) {
        std::string text;
        ValueOut out{.text = &text};
        auto found = heap_->fetch(txn, id, access, out);
        EXPECT_TRUE(found.has_value()) << found.error().text();
        return found.has_value() && *found ? text : "-";
    }
    bool update(txn::Transaction& txn, RecordId id, Slice record) {
        auto done = heap_->update(txn, id, record);
        EXPECT_TRUE(done.has_value()) << done.error().text();
        return done.has_value() && *done;
    }
    bool erase(txn::Transaction& txn, RecordId id) {
        auto done = heap_->erase(txn, id);
        EXPECT_TRUE(done.has_value()) << done.error().text();
        return done.has_value() && *done;
    }
    std::map<RecordId, std::string> all(txn::Transaction& txn) {
        std::map<RecordId, std::string> records;
        auto done = heap_->scan(txn, [&](RecordId id, Slice value) {
            EXPECT_TRUE(records.emplace(id, value).second) << "seen twice";
            return true;
        });
        EXPECT_TRUE(done) << done.error().text();
        return records;
    }
    BTree::Report verify() {
        auto report = heap_->verify();
        EXPECT_TRUE(report) << report.error().text();
        for (const auto& fault : report->faults) ADD_FAILURE() << fault;
        return *report;
    }

    TestEngine store_;
    std::unique_ptr<HeapFile> heap_;
};

}  // namespace lockstep::sm
