// public_calls_table.cc - one line for each public call of stores, transactions and objects: its
// name as in the header, whether it may wait, and how it is made.
#include <algorithm>
#include <memory>
#include <span>

#include <lockstep/changes.h>
#include <lockstep/need.h>
#include <lockstep/plan.h>
#include "tests/sm/api/public_calls_lines.h"
#include "threads/base/try.h"

namespace lockstep {
namespace {

using enum Situation;

std::string open_another(World& w) {
    Options small;
    small.pool_bytes = 4 << 20, small.log_bytes = 4 << 20, small.log_ring_bytes = 1 << 20;
    small.log_segment_bytes = 1 << 20;
    return told(Store::open(w.root + "/other", small));
}
class Once final : public Packet {
public:
    void run() override { delete this; }
};
std::string submit(World& w) {
    auto once = std::make_unique<Once>();
    const auto submitted = w.store.submit(*once);
    if (submitted) (void)once.release();
    return told(submitted);
}
std::string withdraw(World& w) {
    auto once = std::make_unique<Once>();
    (void)w.store.submit(*once, {.not_before = now() + 3600 * kSecond});
    return truth(w.store.withdraw(*once));
}
std::string backup_place(const World& w) {
    return w.root + "/backup" + std::to_string(static_cast<int>(w.situation));
}
Result<void> no_sink(std::string_view, uint64_t, Slice) { return {}; }
bool no_more(Slice&, Slice&) { return false; }
bool each(RecordId, Slice) { return true; }
bool is_listed(World& w, OpenTxn& t) {
    const auto all = w.store.transactions();
    return std::ranges::any_of(all, [&](const auto& info) { return info.id == t.txn.id(); });
}

constexpr const char* kColumns = "k bytes key, v bytes value 0";
// Of a report of the world's store, if it begins.
std::string with_report(World& w, Result<void> (*act)(Report& report)) {
    Result<Report> report = w.store.report();
    return report ? told(act(*report)) : told(report);
}
Result<void> begin_scan(Report& report) {
    (void)TRY(report.scan("i"));
    return {};
}
Result<void> read_block(Report& report) {
    Scan scan = TRY(report.scan("i"));
    Block block;
    (void)TRY(scan.next(block));
    return {};
}
Result<void> read_each(Report& report) {
    Scan scan = TRY(report.scan("i"));
    return scan.each([](const Block&) -> Result<bool> { return true; });
}

Result<void> answer_some(Report& report) {
    (void)TRY(report.answer(std::vector{Plan::scan("i", {"k"})}, AnswerOptions{}));
    return {};
}
Result<void> answer_one(Report& report) {
    (void)TRY(report.answer(Plan::scan("i", {"k"}), AnswerOptions{}));
    return {};
}
Result<void> answer_plainly(Report& report) {
    (void)TRY(report.answer(Plan::scan("i", {"k"})));
    return {};
}

// Of a feed that begins now.
template <class Act>
std::string with_feed(World& w, Act act) {
    Result<ChangeFeed> feed = w.store.changes();
    return feed ? act(*feed) : told(feed);
}
std::string next_change(ChangeFeed& feed) {
    Change change;
    return told(feed.next(change));
}

std::vector<PublicCall> store_calls() {
    return {
        CALL("Store::open(path, options)", may, open_another(w)),
        CALL("Store::~Store()", may, done([&] { Store gone = std::move(w.store); }))
            .not_in(user_thread)
            .last(4),
        CALL("Store::close()", may, told(w.store.close())).last(3),
        CALL("Store::run(fn, options)", may,
             told(w.store.run([&](Txn& txn) { return w.index.put(txn, "run", "v"); }))),
        CALL("Store::spawn(fn, options, worker)", never,
             told(w.store.spawn([](Txn&) -> Result<int> { return 1; }).started())),
        CALL("Store::start(fn, worker)", never,
             told(w.store.start([]() -> Result<int> { return 1; }).started())),
        CALL("Store::submit(packet, options)", never, submit(w)),
        CALL("Store::withdraw(packet)", never, withdraw(w)),
        CALL("Store::begin(options)", may, told(w.store.begin())),
        TXN_CALL("Store::create_index(txn, name)", may, told(w.store.create_index(t.txn, "new"))),
        TXN_CALL("Store::create_heap(txn, name)", may, told(w.store.create_heap(t.txn, "new"))),
        TXN_CALL("Store::open_or_create_index(txn, name)", may,
                 told(w.store.open_or_create_index(t.txn, "i"))),
        TXN_CALL("Store::open_or_create_heap(txn, name)", may,
                 told(w.store.open_or_create_heap(t.txn, "h"))),
        TXN_CALL("Store::drop(txn, name)", may, told(w.store.drop(t.txn, "doomed"))),
        CALL("Store::index(name)", may, told(w.store.index("i"))),
        CALL("Store::heap(name)", may, told(w.store.heap("h"))),
        TXN_CALL("Store::index(txn, name)", may, told(w.store.index(t.txn, "i"))),
        TXN_CALL("Store::heap(txn, name)", may, told(w.store.heap(t.txn, "h"))),
        TXN_CALL("Store::describe(txn, name, columns)", may,
                 told(w.store.describe(t.txn, "i", kColumns))),
        CALL("Store::describe(name, columns)", may, told(w.store.describe("i", kColumns))),
        TXN_CALL("Store::columns(txn, name)", may, told(w.store.columns(t.txn, "i"))),
        CALL("Store::columns(name)", may, told(w.store.columns("i"))),
        CALL("Store::report()", may, told(w.store.report())),
        CALL("Store::report(options)", may, told(w.store.report({.max_age = 1}))),
        CALL("Store::report_stats()", never, done([&] { (void)w.store.report_stats(); })),
        CALL("Report::~Report()", never, destroyed<Report>()),
        CALL("Report::scan(name, options)", may, with_report(w, begin_scan)),
        CALL("Report::answer(plans, options)", may, with_report(w, answer_some)),
        CALL("Report::answer(plan, options)", may, with_report(w, answer_one)),
        CALL("Report::answer(plan)", may, with_report(w, answer_plainly)),
        CALL("Report::sees()", never, done([] { (void)Report().sees(); })),
        CALL("Scan::~Scan()", never, destroyed<Scan>()),
        CALL("Scan::columns()", never, done([] { (void)Scan().columns(); })),
        CALL("Scan::next(out)", may, with_report(w, read_block)),
        CALL("Scan::each(fn)", may, with_report(w, read_each)),
        CALL("Scan::progress()", never, done([] { (void)Scan().progress(); })),
        CALL("Scan::behind()", never, done([] { (void)Scan().behind(); })),
        CALL("Scan::cancel()", never, done([] { Scan().cancel(); })),
        CALL("Store::changes(from)", may, told(w.store.changes())),
        TXN_CALL("Store::changes_point(snapshot)", never, told(w.store.changes_point(t.txn))),
        CALL("ChangeFeed::~ChangeFeed()", never, with_feed(w, [](auto&) { return "ok"; })),
        CALL("ChangeFeed::next(change, wait)", may, with_feed(w, next_change)),
        CALL("ChangeFeed::position()", never,
             with_feed(w, [](auto& feed) { return filled(!feed.position().empty()); })),
        CALL("Store::list()", never, filled(!w.store.list().empty())),
        TXN_CALL("Store::bulk_load(txn, index, next, fill_percent)", may,
                 told(w.store.bulk_load(t.txn, w.empty, no_more))),
        CALL("Store::wait_durable(point)", may, told(w.store.wait_durable(w.point))),
        CALL("Store::checkpoint()", may, told(w.store.checkpoint())),
        CALL("Store::backup(directory, options)", may, told(w.store.backup(backup_place(w)))),
        CALL("Store::backup(sink, options)", may, told(w.store.backup(no_sink))),
        CALL("read_backup(directory)", may, told(read_backup(w.root + "/none"))),
        CALL("verify_backup(directory)", may, told(verify_backup(w.root + "/none"))),
        CALL("verify_restore(backups, options)", may, told(verify_restore({}))),
        CALL("restore_backup(backups, to, options)", may,
             told(restore_backup({}, w.root + "/none"))),
        CALL("update_backup(full, next)", may,
             told(update_backup(w.root + "/none", w.root + "/none"))),
        CALL("Store::give_back_space()", may, told(w.store.give_back_space())),
        CALL("Store::verify(threads)", may, told(w.store.verify()))
            .either_in(failed, "ok or `store_failed`"),
        CALL("Store::failure()", never, filled(w.store.failure().has_value())),
        TXN_CALL("Store::transactions()", may, filled(is_listed(w, t))),
        TXN_CALL("Store::end_transaction(id)", may, told(w.store.end_transaction(t.txn.id()))),
        CALL("Store::prepared()", never, done([&] { (void)w.store.prepared(); })),
        CALL("Store::commit_prepared(gid)", may, told(w.store.commit_prepared("none"))),
        CALL("Store::rollback_prepared(gid)", may, told(w.store.rollback_prepared("none"))),
        CALL("Store::stats()", never, filled(w.store.stats().commits > 0)),
        CALL("Store::steps_stats()", never, done([&] { (void)w.store.steps_stats(); })),
        CALL("Store::metrics()", never, filled(!w.store.metrics().empty())),
        CALL("Store::set_steps(options)", may, told(w.store.set_steps(w.steps))),
        CALL("Store::options()", never, filled(w.store.options().workers > 0)).not_in(closed),
        CALL("Store::steps_options()", never, done([&] { (void)w.store.steps_options(); })),
    };
}

std::vector<PublicCall> txn_calls() {
    return {
        TXN_CALL("Txn::~Txn()", may, done([&] { Txn gone = std::move(t.txn); }))
            .not_in(foreign_thread)
            .last(2),
        TXN_CALL("Txn::commit()", may, told(t.txn.commit())).last(1),
        TXN_CALL("Txn::abort()", may, told(t.txn.abort())).last(1),
        TXN_CALL("Txn::prepare(gid)", may, told(t.txn.prepare("gid"))).last(1),
        TXN_CALL("Txn::savepoint()", never, told(t.txn.savepoint())),
        TXN_CALL("Txn::retry()", never, done([&] { (void)t.txn.retry(); })),
        TXN_CALL("Txn::rollback_to(savepoint)", may, told(t.txn.rollback_to(t.savepoint))),
        TXN_CALL("Txn::will_need(needs)", never, done([&] {
                     const Need needs[] = {{w.index, "k"}};
                     t.txn.will_need(needs);
                 })),
        TXN_CALL("Txn::walks_needs()", never, done([&] { (void)t.txn.walks_needs(); })),
        TXN_CALL("Txn::id()", never, filled(t.txn.id() != kTxnNone)),
        TXN_CALL("Txn::live()", never, truth(t.txn.live())),
    };
}

std::string get_many(World& w, OpenTxn& t) {
    Lookup rows[1] = {{.key = "k", .buffer = {}}};
    return told(w.index.get_many(t.txn, rows));
}
std::string insert_many(World& w, OpenTxn& t) {
    const NewRecord records[1] = {{"new", "v"}};
    return told(w.index.insert_many(t.txn, records));
}
std::string modify(World& w, OpenTxn& t) {
    std::byte room[8];
    const auto change = [](std::span<std::byte> value) {
        value[0] = std::byte('w');
        return ByteRange{0, 1};
    };
    return told(w.index.modify(t.txn, "k", room, change));
}
std::string modify_many(World& w, OpenTxn& t) {
    std::byte room[2][8];
    Lookup rows[2] = {{.key = "k", .buffer = room[0]}, {.key = "none", .buffer = room[1]}};
    const auto change = [](size_t, std::span<std::byte> value) {
        value[0] = std::byte('x');
        return ByteRange{0, 1};
    };
    return told(w.index.modify_many(t.txn, rows, change));
}
std::string get(World& w, OpenTxn& t) {
    std::string value;
    return told(w.index.get(t.txn, "k", value));
}
std::string get_into_buffer(World& w, OpenTxn& t) {
    std::byte room[8];
    return told(w.index.get(t.txn, "k", std::span(room)));
}
std::string get_unless_locked(World& w, OpenTxn& t) {
    std::string value;
    return told(w.index.get(t.txn, "k", value, Access::read, IfLocked::no_wait));
}
std::string get_into_buffer_unless_locked(World& w, OpenTxn& t) {
    std::byte room[8];
    return told(w.index.get(t.txn, "k", std::span(room), Access::read, IfLocked::no_wait));
}
std::string get_once(World& w) {
    std::string value;
    return told(w.index.get("k", value));
}
std::string get_into_buffer_once(World& w) {
    std::byte room[8];
    return told(w.index.get("k", std::span(room)));
}
std::string get_many_once(World& w) {
    Lookup rows[1] = {{.key = "k", .buffer = {}}};
    return told(w.index.get_many(rows));
}
std::string modify_once(World& w) {
    std::byte room[8];
    const auto change = [](std::span<std::byte> value) {
        value[0] = std::byte('y');
        return ByteRange{0, 1};
    };
    return told(w.index.modify("k", room, change));
}
bool more(Slice, Slice) { return true; }

// Calls without a transaction, on keys that the transactions of this test leave alone.
std::vector<PublicCall> once_calls() {
    return {
        CALL("Index::get(key, value, options)", may, get_once(w)),
        CALL("Index::get(key, buffer, options)", may, get_into_buffer_once(w)),
        CALL("Index::get_many(rows, options)", may, get_many_once(w)),
        CALL("Index::insert(key, value, options)", may, told(w.index.insert("once", "v"))),
        CALL("Index::put(key, value, options)", may, told(w.index.put("k", "w"))),
        CALL("Index::add(key, offset, n, options)", may, told(w.index.add("none", 0, 1))),
        CALL("Index::erase(key, options)", may, told(w.index.erase("none"))),
        CALL("Index::erase_range(low, high, options)", may,
             told(w.index.erase_range("none", "none."))),
        CALL("Index::modify(key, buffer, change, options)", may, modify_once(w)),
        CALL("Index::scan(low, high, each, options)", may, told(w.index.scan({}, {}, more))),
        CALL("Index::scan_prefix(prefix, each, options)", may,
             told(w.index.scan_prefix("k", more))),
        CALL("Index::count(low, high, options)", may, told(w.index.count())),
        CALL("Index::approximate_size(low, high)", may, told(w.index.approximate_size())),
    };
}

std::string heap_get(World& w, OpenTxn& t) {
    std::string value;
    return told(w.heap.get(t.txn, w.record, value));
}

std::vector<PublicCall> object_calls() {
    return {
        CALL("Index::operator bool()", never, truth(static_cast<bool>(w.index))),
        TXN_CALL("Index::get(txn, key, value, access)", may, get(w, t)),
        TXN_CALL("Index::get(txn, key, buffer, access)", may, get_into_buffer(w, t)),
        TXN_CALL("Index::get(txn, key, value, access, if_locked)", may, get_unless_locked(w, t)),
        TXN_CALL("Index::get(txn, key, buffer, access, if_locked)", may,
                 get_into_buffer_unless_locked(w, t)),
        TXN_CALL("Index::get_many(txn, rows, access)", may, get_many(w, t)),
        TXN_CALL("Index::get_many(txn, rows, access, if_locked)", may,
                 told(w.index.get_many(t.txn, {}, Access::read, IfLocked::skip))),
        TXN_CALL("Index::insert(txn, key, value)", may, told(w.index.insert(t.txn, "new", "v"))),
        TXN_CALL("Index::insert_many(txn, records)", may, insert_many(w, t)),
        TXN_CALL("Index::update(txn, key, value)", may, told(w.index.update(t.txn, "k", "w"))),
        TXN_CALL("Index::put(txn, key, value)", may, told(w.index.put(t.txn, "k", "w"))),
        TXN_CALL("Index::patch(txn, key, offset, part)", may,
                 told(w.index.patch(t.txn, "k", 0, "w"))),
        TXN_CALL("Index::patch(txn, key, offset, part, hint)", may,
                 told(w.index.patch(t.txn, "k", 0, "w", RecordHint{}))),
        TXN_CALL("Index::modify(txn, key, buffer, change)", may, modify(w, t)),
        TXN_CALL("Index::modify_many(txn, rows, change)", may, modify_many(w, t)),
        TXN_CALL("Index::add(txn, key, offset, n)", may, told(w.index.add(t.txn, "none", 0, 1))),
        TXN_CALL("Index::erase(txn, key)", may, told(w.index.erase(t.txn, "k"))),
        TXN_CALL("Index::erase_range(txn, low, high)", may,
                 told(w.index.erase_range(t.txn, "none", "none."))),
        TXN_CALL("Index::scan(txn, low, high, access)", may, told(w.index.scan(t.txn).next())),
        TXN_CALL("Index::scan(txn, low, high, access, if_locked)", may,
                 told(w.index.scan(t.txn, {}, {}, Access::read, IfLocked::skip).next())),
        TXN_CALL("Index::scan_prefix(txn, prefix, access)", may,
                 told(w.index.scan_prefix(t.txn, "k").next())),
        TXN_CALL("Index::scan_prefix(txn, prefix, access, if_locked)", may,
                 told(w.index.scan_prefix(t.txn, "k", Access::read, IfLocked::skip).next())),
        TXN_CALL("Index::count(txn, low, high)", may, told(w.index.count(t.txn))),
        CALL("Index::id()", never, filled(w.index.id() != ObjectId{})).not_in(closed),
        CALL("Heap::operator bool()", never, truth(static_cast<bool>(w.heap))),
        TXN_CALL("Heap::insert(txn, record)", may, told(w.heap.insert(t.txn, "v"))),
        TXN_CALL("Heap::get(txn, id, record, access)", may, heap_get(w, t)),
        TXN_CALL("Heap::update(txn, id, record)", may, told(w.heap.update(t.txn, w.record, "w"))),
        TXN_CALL("Heap::erase(txn, id)", may, told(w.heap.erase(t.txn, w.record))),
        TXN_CALL("Heap::scan(txn, each)", may, told(w.heap.scan(t.txn, each))),
        CALL("Heap::id()", never, filled(w.heap.id() != ObjectId{})).not_in(closed),
        TXN_CALL("Cursor::~Cursor()", never, done([&] { Cursor gone = std::move(t.cursor); }))
            .last(1),
        TXN_CALL("Cursor::next()", may, told(t.cursor.next())),
        TXN_CALL("Cursor::prev()", may, told(t.cursor.prev())),
        TXN_CALL("Cursor::patch(offset, part)", may, told(t.cursor.patch(0, "w"))),
        TXN_CALL("Cursor::key()", never, done([&] { (void)t.cursor.key(); })),
        TXN_CALL("Cursor::value()", never, done([&] { (void)t.cursor.value(); })),
    };
}

void by_value(Slice, Slice value, SecondaryKeys& keys) { keys.add(value); }
std::string get_by(World& w, OpenTxn& t) {
    SecondaryRecord record;
    return told(get_by(t.txn, w.secondary, "value", record));
}

std::vector<PublicCall> secondary_calls() {
    return {
        TXN_CALL("Store::create_index(txn, name, options)", may,
                 told(w.store.create_index(t.txn, "by", {.of = w.primary, .key = by_value}))),
        TXN_CALL(
            "Store::open_or_create_index(txn, name, options)", may,
            told(w.store.open_or_create_index(t.txn, "s", {.of = w.primary, .key = by_value}))),
        CALL("Store::attach_key(name, key)", never, told(w.store.attach_key("s", by_value))),
        TXN_CALL("get_by(txn, secondary, key, record, access)", may, get_by(w, t)),
        TXN_CALL("find_by(txn, secondary, key, access)", may,
                 told(find_by(t.txn, w.secondary, "value").next())),
        TXN_CALL("scan_by(txn, secondary, low, high, access)", may,
                 told(scan_by(t.txn, w.secondary).next())),
        TXN_CALL("SecondaryCursor::next()", may, told(t.by.next())),
        TXN_CALL("SecondaryCursor::prev()", may, told(t.by.prev())),
        TXN_CALL("SecondaryCursor::secondary_key()", never,
                 done([&] { (void)t.by.secondary_key(); })),
        TXN_CALL("SecondaryCursor::key()", never, done([&] { (void)t.by.key(); })),
        TXN_CALL("SecondaryCursor::value()", never, done([&] { (void)t.by.value(); })),
    };
}

}  // namespace

std::vector<PublicCall> public_calls() {
    std::vector<PublicCall> all;
    for (auto part :
         {store_calls, txn_calls, object_calls, once_calls, secondary_calls, thread_calls})
        for (PublicCall& call : part()) all.push_back(std::move(call));
    return all;
}

}  // namespace lockstep
