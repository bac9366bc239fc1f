// flow_build.cc - from a plan to packets and buffers, as far as no host has the rows already.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sm/report/flow.h"
#include "sm/report/flow_impl.h"
#include "threads/runtime/runtime.h"

namespace lockstep::sm::report {

namespace {

constexpr size_t kEndedMax = 10'000;

StageKind stage_of(NodeKind kind) {
    switch (kind) {
        case NodeKind::scan: return StageKind::scan;
        case NodeKind::where:
        case NodeKind::compute: return StageKind::filter;
        case NodeKind::join:
        case NodeKind::left_join:
        case NodeKind::semi_join: return StageKind::probe;
        case NodeKind::merge_join: return StageKind::merge;
        case NodeKind::group: return StageKind::group;
        case NodeKind::order: return StageKind::sort;
    }
    return StageKind::sink;
}

Nodes inputs_of(const Nodes& nodes, size_t input) {
    Nodes out;
    for (const PlanNode* const node : nodes) {
        DCHECK(input < node->inputs.size() && node->kind == nodes[0]->kind);
        out.push_back(node->inputs[input].get());
    }
    return out;
}

// A build depends on one input of its join and on the key.
std::string signature_of(const void* state, const PlanNode& node, StageKind kind) {
    std::string out = fmt::format("{}/{}/", state, static_cast<int>(kind));
    if (kind != StageKind::build) return out + describe(node, true);
    for (const JoinKey& key : node.keys) out += fmt::format("{}:{};", key.right.size(), key.right);
    return out + describe(*node.inputs[1], true);
}

std::unique_ptr<Operator> make_operator(const Nodes& nodes, StageKind kind, const Shared& shared,
                                        std::vector<Rows>& rows) {
    switch (kind) {
        case StageKind::filter:
            return nodes[0]->kind == NodeKind::where ? make_filter(nodes, shared)
                                                     : make_compute(nodes, shared);
        case StageKind::build: return make_build(nodes, shared);
        case StageKind::probe: return make_probe(nodes, shared);
        case StageKind::merge: return make_merge(nodes, shared);
        case StageKind::group: return make_group(nodes, shared);
        case StageKind::sort: return make_sort(nodes, shared);
        case StageKind::sink: return make_sink(shared, rows);
        case StageKind::scan: break;
    }
    return nullptr;  // once its source is there
}

ScanOptions options_of(const Nodes& nodes, ScanPolicy policy) {
    ScanOptions out{.columns = nodes[0]->columns,
                    .where = pushed_down(nodes),
                    .ordered = nodes[0]->ordered,
                    .policy = policy};
    // Conditions of several reports are looked up by the operator.
    if (nodes.size() > 1 && !out.columns.empty())
        for (const Where& where : nodes[0]->where)
            if (std::ranges::find(out.columns, where.column) == out.columns.end())
                out.columns.push_back(where.column);
    return out;
}

}  // namespace

void Operators::begin(Run& run, const Roots& plans, const Reads& reads,
                      const AnswerOptions& options) {
    run.policy = options.policy;
    run.plans = std::make_shared<const Roots>(plans);
    Nodes nodes;
    for (const auto& plan : plans) nodes.push_back(plan.get());
    run.shared.sets = std::make_shared<IdSets>(plans.size());
    // Ids belong to one run, so packets with ids are nobody else's.
    if (options.sharing != Sharing::none && plans.size() == 1) run.state = reads.state;
    {
        const std::lock_guard lock(mutex_);
        DCHECK((runs_ == 0) == (texts_ == nullptr));
        if (runs_++ == 0) texts_ = std::make_shared<Texts>();
        run.shared.texts = texts_;
        if (ended_.size() > kEndedMax) ended_.clear();
        run.sink = std::make_shared<Packet>(StageKind::sink);
        run.sink->run = &run;
        build(run, nodes, run.sink);
        run.assert_state();
    }
    if (const Result<void> started = start_threads(); !started) {
        const std::lock_guard lock(mutex_);
        end(*run.sink, started.error());
    }
    begin_scans(run, reads);
}

void Operators::wait(Run& run) {
    std::unique_lock lock(mutex_);
    run.finished.wait(mutex_, [&] { return run.done; });
    run.assert_state();
    ++stats_.answers;
    DCHECK(runs_ > 0 && run.sink->ended());
    if (--runs_ == 0) {
        DCHECK(packets_.empty());
        texts_ = nullptr;
        ended_.clear();
        for (const auto& at : stages_) at->wake.notify_all();
    }
    drop_ended(lock);
}

void Operators::build(Run& run, const Nodes& nodes, const std::shared_ptr<Packet>& packet) {
    Packet& p = *packet;
    p.place = packets_.insert(packets_.end(), packet);
    p.plans = run.plans;
    p.of_state = run.state;
    p.work = make_operator(nodes, p.kind, run.shared, run.rows);
    ++stats_.operators;
    at(p.kind).used = true;
    switch (p.kind) {
        case StageKind::scan: run.scans.emplace_back(packet, nodes); return;
        case StageKind::sink: take_from(run, nodes, stage_of(nodes[0]->kind), p); break;
        case StageKind::build: {
            const Nodes other = inputs_of(nodes, 1);
            take_from(run, other, stage_of(other[0]->kind), p);
            break;
        }
        default:
            if (p.kind == StageKind::probe) take_from(run, nodes, StageKind::build, p);
            const Nodes rows = inputs_of(nodes, 0);
            take_from(run, rows, stage_of(rows[0]->kind), p);
            if (p.kind != StageKind::merge) break;
            const Nodes other = inputs_of(nodes, 1);
            take_from(run, other, stage_of(other[0]->kind), p);
    }
    DCHECK(p.in.size() == (p.kind == StageKind::probe || p.kind == StageKind::merge ? 2u : 1u));
    wake(p);
}

// Gives `to` one more input: the rows of these nodes.
void Operators::take_from(Run& run, const Nodes& nodes, StageKind kind, Packet& to) {
    std::string signature;
    if (run.state) {
        signature = signature_of(run.state.get(), *nodes[0], kind);
        if (attach(run, signature, to)) return;
    }
    auto packet = std::make_shared<Packet>(kind);
    build(run, nodes, packet);
    packet->signature = signature;
    if (run.state) hosts_[std::move(signature)] = packet.get();
    connect(*packet, to);
}

void Operators::connect(Packet& from, Packet& to) {
    auto buffer = std::make_shared<Buffer>();
    buffer->from = &from;
    buffer->to = &to;
    buffer->schema = from.schema;
    buffer->bounded = !from.kept;
    // OF-2: what it has missed.
    DCHECK(from.window_open && from.window.size() == from.made);
    buffer->batches.assign(from.window.begin(), from.window.end());
    buffer->assert_state();
    from.out.push_back(buffer);
    to.in.push_back(std::move(buffer));
}

// True: a host gives the rows. Else counts what was missed.
bool Operators::attach(Run& run, const std::string& signature, Packet& to) {
    const auto at = hosts_.find(signature);
    if (at == hosts_.end()) {
        const auto before = ended_.find(signature);
        if (before != ended_.end() && before->second >= run.began) ++stats_.sharing_misses;
        return false;
    }
    Packet& host = *at->second;
    host.assert_state();
    DCHECK(!host.ended() && host.signature == signature);
    const StageRow& row = kStageTable[static_cast<size_t>(host.kind)];
    const Window window = host.made == 0 ? row.before : row.after;
    DCHECK(window != Window::full || host.window_open);
    if (!host.window_open) {
        // A scan joins the pass of the host, which gives it what it has missed at the end of the
        // lap.
        if (window != Window::linear) ++stats_.sharing_misses;
        return false;
    }
    connect(host, to);
    ++stats_.shared;
    return true;
}

void Operators::begin_scans(Run& run, const Reads& reads) {
    for (auto& [packet, nodes] : run.scans) {
        auto source = reads.scan(options_of(nodes, run.policy), nodes[0]->name, run.shared.texts);
        if (source.has_value())
            (*source)->watch([this, scan = packet.get()] {
                const std::lock_guard lock(mutex_);
                wake(*scan);
            });
        std::unique_lock lock(mutex_);
        if (packet->ended()) {
            lock.unlock();
            source = fail(ErrorCode::cancelled, "scan");
        } else if (!source.has_value()) {
            end(*packet, source.error());
        } else {
            packet->work = make_scan(std::move(nodes), run.shared, std::move(*source));
            wake(*packet);
        }
    }
    run.scans.clear();
}

Result<void> Operators::start_threads() {
    for (const auto& stage : stages_)
        for (AtStage& at = *stage;;) {
            {
                const std::lock_guard lock(mutex_);
                DCHECK(at.threads <= place_.workers);  // OF-3
                if (!at.used || at.threads == place_.workers) break;
                ++at.threads;
            }
            const Result<void> started =
                place_.start([self = shared_from_this(), &at] { self->serve_stage(at); });
            if (started) continue;
            const std::lock_guard lock(mutex_);
            if (--at.threads == 0) return started;
            break;
        }
    return {};
}

}  // namespace lockstep::sm::report
