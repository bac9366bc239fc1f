// plan.h - the work of a run's threads. It is drawn before the run, so it can be shown and shrunk.
#pragma once

#include <string>
#include <vector>

#include <lockstep/txn.h>
#include "tests/sim/config.h"

namespace lockstep::sim {

enum class OpKind : uint8_t {
    get,
    get_update,
    insert,
    update,
    put,
    patch,
    erase,
    scan_up,
    scan_down,
    scan_turn,
    heap_insert,
    heap_get,
    heap_update,
    heap_erase,
    heap_scan,
    savepoint,
    rollback,
    yield,
    sleep,
    misuse,
    create,
    drop,
    bulk_load,
    fill,
    by_get,  // through a secondary index; key, span: of the secondary keys
    by_scan,
    // Of a name that all threads use:
    shared_create,
    shared_drop,
    shared_load,
    shared_fill,
    shared_erase,
    shared_read,  // all records, and all entries of its secondary index
    kCount
};

struct Op {
    OpKind kind = OpKind::get;
    uint8_t object = 0;  // number of the index or heap
    // index: number of the key; heap: number of a known record.
    uint32_t key = 0;
    // scan: keys in the range, 0 = everything; bulk_load: records.
    uint32_t span = 0;
    uint32_t size = 0;  // of the value
};

enum class Ending : uint8_t { commit, abort, drop, prepare };

struct TxnPlan {
    std::vector<Op> ops;
    Isolation isolation = Isolation::serializable;
    Durability durability = Durability::durable;
    Ending ending = Ending::commit;
    bool read_only = false;
    bool checkpoint = false;    // before it begins
    bool clean_ghosts = false;  // before it begins
    bool wait = false;          // lazy: waits for durability afterwards
    Nanos idle = 0;             // before it begins, nothing runs for so long
    uint32_t backups = 0;       // before it begins, one after the other
    bool shrink = false;        // before it begins, space is given back
    bool ends_another = false;  // before it begins, some transaction is ended
    bool hoard = false;         // it changes much of a small log
    bool cycle = false;         // before it begins: a backup, space given back, a backup
    bool audit = false;         // before it begins, and while no other runs: verify()
    // Of a two-phase commit: how long it is in doubt; kNever: to the end of the run. Whether it
    // commits then.
    Nanos in_doubt = 0;
    bool decision = true;
    // Its operations change the schema of the thread's own objects.
    bool private_objects = false;
    bool shared_names = false;  // it may change the schema, so it is never prepared
};

struct Plan {
    std::vector<std::vector<TxnPlan>> threads;
    size_t transactions() const;
    size_t operations() const;
    std::string text() const;  // one line per transaction
};
Plan draw_plan(const Config& config, Rng rng);

}  // namespace lockstep::sim
