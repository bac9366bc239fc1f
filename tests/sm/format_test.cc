// labels: unit
// format_test.cc - the tables of offsets in sm/FORMAT.md are those of the code.
//
// Concepts   The test makes the tables from the structs, by offsetof and sizeof. Structs that only
//            one source file knows are found in the bytes that its functions write.
//            LOCKSTEP_WRITE=1 writes the tables into the document.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <sstream>

#include "sm/backup/archive_file.h"
#include "sm/backup/backup_manifest.h"
#include "sm/btree/btree_node.h"
#include "sm/btree/overflow.h"
#include "sm/buffer/superblock.h"
#include "sm/buffer/written_lsns.h"
#include "sm/change/log_kinds.h"
#include "sm/heap/heap_page.h"
#include "sm/recovery/recovery_parts.h"
#include "sm/space/space_map.h"
#include "txn/log/durable_end_file.h"
#include "txn/log/log_files.h"
#include "txn/log/log_record.h"
#include "txn/prepare_record.h"

namespace lockstep::sm::format_test {

constexpr const char* kDocument = LOCKSTEP_SOURCE_DIR "/sm/FORMAT.md";
struct Row {
    size_t offset, bytes;
    std::string name;
};

constexpr const char* kStructures =
    "| structure | bytes | fields behind their offsets |\n|---|---|---|\n";
constexpr const char* kNumbers = "| what | numbers and names |\n|---|---|\n";

// A row of kStructures, with fields in the order of the offsets; each byte belongs to one field.
std::string entry(const char* title, size_t whole, size_t base, const std::vector<Row>& rows) {
    std::ostringstream text;
    text << "| " << title << " | " << whole << " | ";
    size_t at = 0;
    for (const Row& row : rows) {
        EXPECT_EQ(row.offset, at) << title << ": a gap or an overlap before " << row.name;
        text << (at == 0 ? "" : ", ") << base + row.offset << " `" << row.name << "`";
        at = row.offset + row.bytes;
    }
    EXPECT_EQ(at, whole) << title << ": the last fields are missing";
    return text.str() + " |\n";
}

#define FIELD(type, field) \
    Row { offsetof(type, field), sizeof(type::field), #field }

std::string page_tables() {
    using node::NodeHeader;
    return entry("Page header", sizeof(PageHeader), 0,
                 {FIELD(PageHeader, checksum), FIELD(PageHeader, lsn), FIELD(PageHeader, page_id),
                  FIELD(PageHeader, object), FIELD(PageHeader, kind), FIELD(PageHeader, level),
                  FIELD(PageHeader, hole_begin), FIELD(PageHeader, hole_end),
                  FIELD(PageHeader, flags)}) +
           entry("Superblock, behind the page header", sizeof(Superblock), sizeof(PageHeader),
                 {FIELD(Superblock, magic), FIELD(Superblock, version),
                  FIELD(Superblock, page_bytes), FIELD(Superblock, uuid),
                  FIELD(Superblock, checkpoint_lsn), FIELD(Superblock, log_start),
                  FIELD(Superblock, log_segment_bytes), FIELD(Superblock, catalog_root),
                  FIELD(Superblock, clean), FIELD(Superblock, next_txn),
                  FIELD(Superblock, sequence), FIELD(Superblock, history),
                  FIELD(Superblock, history_parent), FIELD(Superblock, history_begin)}) +
           entry("B-tree node, behind the page header", sizeof(NodeHeader), sizeof(PageHeader),
                 {FIELD(NodeHeader, count), FIELD(NodeHeader, prefix), FIELD(NodeHeader, low_at),
                  FIELD(NodeHeader, low_bytes), FIELD(NodeHeader, high_at),
                  FIELD(NodeHeader, high_bytes), FIELD(NodeHeader, garbage),
                  FIELD(NodeHeader, ghosts), FIELD(NodeHeader, link), FIELD(NodeHeader, last_put),
                  FIELD(NodeHeader, run), FIELD(NodeHeader, common),
                  FIELD(NodeHeader, common_bytes)}) +
           entry("Slot of a B-tree node", sizeof(node::Slot), 0,
                 {FIELD(node::Slot, head), FIELD(node::Slot, at), FIELD(node::Slot, bits)});
}

std::string value_tables() {
    using heap::DataHeader, heap::Link, heap::MapBody;
    return entry(
               "Reference to an overflow chain", sizeof(OverflowRef), 0,
               {FIELD(OverflowRef, first), FIELD(OverflowRef, bytes), FIELD(OverflowRef, chain)}) +
           entry("Run of pages, behind the reference", sizeof(OverflowRun), 0,
                 {FIELD(OverflowRun, first), FIELD(OverflowRun, count)}) +
           entry("Overflow page, behind the page header", sizeof(OverflowHeader),
                 sizeof(PageHeader),
                 {FIELD(OverflowHeader, chain), FIELD(OverflowHeader, next),
                  FIELD(OverflowHeader, bytes)}) +
           entry("Heap page, behind the page header", sizeof(DataHeader), sizeof(PageHeader),
                 {FIELD(DataHeader, map_page), FIELD(DataHeader, map_index),
                  FIELD(DataHeader, slot_count), FIELD(DataHeader, heap_begin),
                  FIELD(DataHeader, free_bytes), FIELD(DataHeader, reclaimable),
                  FIELD(DataHeader, empty_slots)}) +
           entry("Slot of a heap page", sizeof(heap::Slot), 0,
                 {FIELD(heap::Slot, offset), FIELD(heap::Slot, capacity), FIELD(heap::Slot, length),
                  FIELD(heap::Slot, state), FIELD(heap::Slot, unused)}) +
           entry("Link of a moved heap record", sizeof(Link), 0,
                 {FIELD(Link, page), FIELD(Link, slot), FIELD(Link, unused)}) +
           entry("Map page of a heap, behind the page header", sizeof(MapBody), sizeof(PageHeader),
                 {FIELD(MapBody, next), FIELD(MapBody, entries), FIELD(MapBody, unused),
                  FIELD(MapBody, unused2), FIELD(MapBody, page), FIELD(MapBody, free_class)});
}

std::string log_tables() {
    using Header = txn::LogRecordHeader;
    return entry("Log record", sizeof(Header), 0,
                 {FIELD(Header, bytes), FIELD(Header, checksum), FIELD(Header, prev),
                  FIELD(Header, txn), FIELD(Header, kind), FIELD(Header, flags),
                  FIELD(Header, parts), FIELD(Header, object)}) +
           entry("Part of a log record", sizeof(PartHeader), 0,
                 {FIELD(PartHeader, page), FIELD(PartHeader, action), FIELD(PartHeader, flags),
                  FIELD(PartHeader, image_bytes), FIELD(PartHeader, payload_bytes),
                  FIELD(PartHeader, reserved)}) +
           entry("End of a checkpoint, behind the record header", sizeof(CheckpointEnd),
                 sizeof(Header),
                 {FIELD(CheckpointEnd, begin), FIELD(CheckpointEnd, next_txn),
                  FIELD(CheckpointEnd, oldest_first), FIELD(CheckpointEnd, part),
                  FIELD(CheckpointEnd, parts), FIELD(CheckpointEnd, count),
                  FIELD(CheckpointEnd, reserved)}) +
           entry("Time record, behind the record header", sizeof(txn::TimePayload), sizeof(Header),
                 {FIELD(txn::TimePayload, time)}) +
           entry("Prepare record, behind the record header", sizeof(txn::PreparePayload),
                 sizeof(Header),
                 {FIELD(txn::PreparePayload, time), FIELD(txn::PreparePayload, undo_bytes),
                  FIELD(txn::PreparePayload, objects), FIELD(txn::PreparePayload, names),
                  FIELD(txn::PreparePayload, gid_bytes), FIELD(txn::PreparePayload, reserved)}) +
           entry("Object in a prepare record", sizeof(txn::PreparedObject), 0,
                 {FIELD(txn::PreparedObject, object), FIELD(txn::PreparedObject, mode)}) +
           entry(
               "Transaction in the end of a checkpoint", sizeof(CheckpointTxn), 0,
               {FIELD(CheckpointTxn, id), FIELD(CheckpointTxn, first), FIELD(CheckpointTxn, last)});
}

// Where the bytes of `value` lie; they must lie there once.
template <class T>
size_t place_of(const std::byte* bytes, size_t size, T value) {
    size_t found = size;
    for (size_t at = 0; at + sizeof value <= size; at += sizeof value) {
        if (std::memcmp(bytes + at, &value, sizeof value) != 0) continue;
        EXPECT_EQ(found, size) << "twice";
        found = at;
    }
    EXPECT_LT(found, size) << "not found";
    return found;
}

std::string side_file_tables() {
    alignas(4096) std::byte mark[txn::DurableEnd::kSlotBytes];
    const txn::DurableEnd end{
        .sequence = 0x1111222233334444, .durable_end = 0x55556666, .segment_bytes = 0x77778888};
    end.encode(mark);
    const auto in_mark = [&](auto value) { return place_of(mark, sizeof mark, value); };
    const size_t version = in_mark(uint32_t{txn::DurableEnd::kVersion});
    const std::string marks = entry("Slot of log.mark, its used part", 48, 0,
                                    {{0, 8, "magic"},
                                     {version, 4, "version"},
                                     {version + 4, 4, "reserved"},
                                     {in_mark(end.sequence), 8, "sequence"},
                                     {in_mark(end.durable_end), 8, "durable_end"},
                                     {in_mark(end.segment_bytes), 8, "segment_bytes"},
                                     {in_mark(end.segment_bytes) + 8, 8, "checksum"}});

    constexpr uint32_t kPages = WrittenLsns::kPagesPerBlock;
    alignas(4096) std::byte slot[2 * WrittenLsns::kSlotBytes];
    const uint64_t lsns[kPages] = {0x9999aaaabbbb};
    WrittenLsns::make_slots(0xccccddddeeee, 0x12345678, lsns, slot);
    const auto in_slot = [&](auto value) { return place_of(slot, WrittenLsns::kSlotBytes, value); };
    const size_t store = in_slot(uint64_t{0xccccddddeeee}), block = in_slot(uint32_t{0x12345678});
    return marks + entry("Slot of data.lsn", WrittenLsns::kSlotBytes, 0,
                         {{0, 8, "checksum"},
                          {8, 8, "magic"},
                          {store, 8, "store"},
                          {in_slot(uint64_t{1}), 8, "save"},
                          {block - 4, 4, "version"},
                          {block, 4, "block"},
                          {in_slot(lsns[0]), kPages * 8, "lsn"}});
}

std::string backup_tables() {
    using M = BackupManifest;
    return entry("File backup, its used part", sizeof(M), 0,
                 {FIELD(M, checksum), FIELD(M, magic), FIELD(M, version), FIELD(M, restored),
                  FIELD(M, superblock), FIELD(M, end), FIELD(M, pages), FIELD(M, pages_copied),
                  FIELD(M, since_redo), FIELD(M, since_end), FIELD(M, bytes), FIELD(M, log_bytes),
                  FIELD(M, pages_zeroed), FIELD(M, nanos), FIELD(M, ended_at)});
}

// A row of kNumbers.
template <class Number>
std::string numbers(const char* title, const std::vector<std::pair<const char*, Number>>& all) {
    std::ostringstream text;
    text << "| " << title << " | ";
    for (const auto& [name, number] : all)
        text << (name == all.front().first ? "" : ", ") << static_cast<unsigned>(number) << " `"
             << name << "`";
    return text.str() + " |\n";
}

std::string archive_tables() {
    using A = ArchiveHeader;
    return entry("First block of a file of the archive, its used part", sizeof(A), 0,
                 {FIELD(A, checksum), FIELD(A, magic), FIELD(A, version), FIELD(A, kind),
                  FIELD(A, uuid), FIELD(A, history), FIELD(A, history_parent),
                  FIELD(A, history_begin), FIELD(A, segment_bytes), FIELD(A, begin), FIELD(A, end),
                  FIELD(A, path_bytes)}) +
           "\n" + kNumbers +
           numbers<ArchiveKind>("Kinds of files of the archive", {{"store", ArchiveKind::store},
                                                                  {"piece", ArchiveKind::piece},
                                                                  {"backup", ArchiveKind::backup}});
}

std::string constants() {
    std::ostringstream text;
    text << "| constant | value |\n|---|---|\n"
         << "| format version written | " << kFormatVersion << " |\n"
         << "| oldest format version opened | " << kFormatVersionOldest << " |\n"
         << "| bytes of a page | " << kPageBytes << " |\n"
         << "| first page of a space map | " << kFirstMapPage.value << " |\n"
         << "| pages of one space map | " << kPagesPerMap << " |\n"
         << "| LSN of a new log's first record | " << txn::kLogFirst << " |\n"
         << "| bytes of a log block | " << txn::kLogBlock << " |\n"
         << "| longest log record | " << txn::kLogRecordMax << " |\n"
         << "| first kind of a log record with pages | " << txn::kSmLogKindFirst << " |\n"
         << "| version of file backup | " << kManifestVersion << " |\n"
         << "| version of the archive's files | " << kArchiveVersion << " |\n";
    return text.str();
}

std::string number_tables() {
#define X(number, name, undo) {#name, number},
    const std::vector<std::pair<const char*, int>> kinds = {LOCKSTEP_SM_LOG_KINDS(X)};
#undef X
#define X(number, name) {#name, number},
    const std::vector<std::pair<const char*, int>> actions = {LOCKSTEP_PAGE_ACTIONS(X)};
#undef X
    return numbers<PageKind>("Kinds of pages", {{"free", PageKind::free},
                                                {"superblock", PageKind::superblock},
                                                {"space_map", PageKind::space_map},
                                                {"btree", PageKind::btree},
                                                {"overflow", PageKind::overflow},
                                                {"heap", PageKind::heap},
                                                {"heap_map", PageKind::heap_map}}) +
           numbers<txn::TxnLogKind>("Kinds of log records without pages",
                                    {{"pad", txn::TxnLogKind::pad},
                                     {"commit", txn::TxnLogKind::commit},
                                     {"end", txn::TxnLogKind::end},
                                     {"checkpoint_begin", txn::TxnLogKind::checkpoint_begin},
                                     {"checkpoint_end", txn::TxnLogKind::checkpoint_end},
                                     {"time", txn::TxnLogKind::time},
                                     {"prepare_locks", txn::TxnLogKind::prepare_locks},
                                     {"prepare", txn::TxnLogKind::prepare}}) +
           numbers("Kinds of log records with pages", kinds) + numbers("Page actions", actions);
}

// The text between the two lines that frame a generated part of the document.
void compare(std::string& document, const std::string& name, const std::string& found) {
    const std::string begin = "<!-- " + name + ": begin -->\n", end = "<!-- " + name + ": end -->";
    const size_t at = document.find(begin), stop = document.find(end);
    ASSERT_TRUE(at != std::string::npos && stop != std::string::npos) << "no place for " << name;
    const size_t from = at + begin.size();
    const std::string wanted = "\n" + found + "\n";
    if (getenv("LOCKSTEP_WRITE") != nullptr) document.replace(from, stop - from, wanted);
    EXPECT_EQ(document.substr(from, document.find(end) - from), wanted)
        << name << ": if the format shall be so: LOCKSTEP_WRITE=1 sm_format_test";
}

TEST(Format, TheDocumentHasTheOffsetsOfTheCode) {
    std::stringstream whole;
    whole << std::ifstream(kDocument).rdbuf();
    const std::string before = whole.str();
    std::string document = before;
    compare(document, "constants", constants());
    compare(document, "pages", kStructures + page_tables());
    compare(document, "values", kStructures + value_tables());
    compare(document, "log", kStructures + log_tables());
    compare(document, "side files", kStructures + side_file_tables());
    compare(document, "backup", kStructures + backup_tables());
    compare(document, "archive", kStructures + archive_tables());
    compare(document, "numbers", kNumbers + number_tables());
    if (document != before && !HasFailure()) std::ofstream(kDocument) << document;
}

}  // namespace lockstep::sm::format_test
