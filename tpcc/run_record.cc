// run_record.cc - counts the runs of a database.
#include "tpcc/run_record.h"

#include "threads/base/try.h"

namespace lockstep::tpcc {

namespace {
constexpr Slice kKey = "run";
// Seeds of nine digits: they are printed, and typed after --seed.
uint64_t seed_of(uint64_t load_seed, uint32_t number) {
    return row_rng(load_seed, 203, number).below(1'000'000'000);
}
}  // namespace

Result<RunRecord> begin_run(Database& db, std::optional<uint64_t> seed, Time now) {
    return db.store->run([&](Txn& txn) -> Result<RunRecord> {
        RunRecord record{};
        std::string value;
        const bool again = TRY(db.config.get(txn, kKey, value, Access::write));
        if (again && !read_record(value, record))
            return fail(ErrorCode::bad_version, "tpcc_config: record of the last run");
        ++record.number;
        record.seed = seed.value_or(seed_of(db.seed, record.number));
        record.began = now;
        if (again) TRY(db.config.update(txn, kKey, bytes_of(record)));
        else TRY(db.config.insert(txn, kKey, bytes_of(record)));
        return record;
    });
}

}  // namespace lockstep::tpcc
