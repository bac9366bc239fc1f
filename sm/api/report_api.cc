// report_api.cc - Store::report(): what the reports get of the engine.
#include <mutex>

#include <lockstep/report.h>
#include <lockstep/store.h>

#include "sm/api/columns_index.h"
#include "sm/api/operation.h"
#include "sm/catalog/catalog.h"
#include "sm/core/txn_local.h"
#include "sm/engine/engine.h"
#include "sm/report/flow.h"
#include "sm/scan/service.h"
#include "threads/base/try.h"

namespace lockstep {

namespace {

Result<sm::scan::Object> object_of(sm::Catalog& catalog, txn::Transaction& txn,
                                   std::string_view name) {
    const Result<sm::BTree*> tree = catalog.index(txn, name);
    if (tree) return *tree;
    if (tree.error().code != ErrorCode::wrong_kind) return std::unexpected(tree.error());
    const Result<sm::HeapFile*> heap = catalog.heap(txn, name);
    if (heap) return *heap;
    return std::unexpected(tree.error());
}

// Their threads keep to the share of a worker that passes have. A thread serves a stage as long as
// answers are computed, so the service lives.
std::shared_ptr<sm::report::Operators> operators_of(sm::scan::Service& service) {
    sm::report::Place place{.workers = service.workers()};
    place.start = [&service](std::function<void()> serve) {
        return service.start("operators", std::move(serve));
    };
    place.make_pacer = [&service] { return service.pacer(); };
    return std::make_shared<sm::report::Operators>(std::move(place));
}

}  // namespace

// The first report makes the service.
void Store::serve_reports(sm::Engine& engine) {
    if (engine.reports) return;
    sm::scan::Hooks hooks;
    hooks.start = [&engine](int worker, const char* name, threads::ThreadFn fn) {
        return engine.start_thread(worker, name, std::move(fn));
    };
    hooks.hold = [&engine](FunctionRef<void(const sm::Snapshot&)> hold) {
        const auto body = [&](Txn& txn) -> Result<void> {
            const txn::Transaction* const t = sm::TxnAccess::usable(txn);
            CHECK(t != nullptr && sm::local_of(*t).snapshot != nullptr);
            hold(*sm::local_of(*t).snapshot);
            return {};
        };
        return run_body(engine, body, {.isolation = Isolation::snapshot, .read_only = true});
    };
    hooks.find = [&engine](std::string_view name) -> Result<sm::scan::Described> {
        sm::scan::Object object;
        std::string text;
        // In one transaction, because a drop takes both away.
        const auto look = [&](txn::Transaction& txn) -> Result<void> {
            object = TRY(object_of(*engine.catalog, txn, name));
            const Result<sm::BTree*> texts = engine.catalog->index(txn, sm::kColumnsIndex);
            if (!texts && texts.error().code == ErrorCode::no_such_object)
                return sm::not_described(name);
            sm::ValueOut out{.text = &text};
            if (!TRY(TRY(texts)->fetch(txn, name, Access::read, out)))
                return sm::not_described(name);
            return {};
        };
        const auto body = [&](Txn& txn) -> Result<void> {
            txn::Transaction* const t = sm::TxnAccess::usable(txn);
            CHECK(t != nullptr);
            return sm::finish(*t, [&] { return look(*t); });
        };
        TRY(run_body(engine, body, {.read_only = true}));
        return sm::scan::Described{object, TRY(Columns::parse(text))};
    };
    hooks.on_own_thread = [&engine] { return engine.on_own_thread(); };
    const bool own_workers = engine.options.scan_workers != 0;
    hooks.first_worker = own_workers ? engine.options.workers : 0;
    hooks.workers = own_workers ? engine.options.scan_workers : engine.options.workers;
    hooks.share = own_workers ? 1 : engine.options.scan_share;
    hooks.bytes = engine.options.scan_bytes;
    hooks.pool_bytes = engine.options.pool_bytes;
    engine.reports = std::make_shared<sm::scan::Service>(std::move(hooks));
    engine.reports->operators = operators_of(*engine.reports);
}

Result<Report> Store::report(const ReportOptions& options) {
    const sm::Call call(engine_.get());
    if (!call) return sm::Call::closed();
    if (engine_->forked()) return sm::Engine::refuse_child();
    std::shared_ptr<sm::scan::Service> service;
    {
        const std::lock_guard lock(engine_->reports_mutex);
        if (engine_->closing()) return sm::Call::closed();
        serve_reports(*engine_);
        service = engine_->reports;
    }
    return Report(TRY(service->open(options.max_age)));
}

Result<Report> Store::report() { return report(ReportOptions{}); }

ReportStats Store::report_stats() const {
    const sm::Call call(engine_.get());
    return call ? engine_->report_stats() : ReportStats{};
}

}  // namespace lockstep
