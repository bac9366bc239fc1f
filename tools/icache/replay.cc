// replay.cc - the loop over the words of a trace.
#include "tools/icache/replay.h"

namespace lockstep::icache {

Replay::Replay(const ReplayOptions& options)
    : options_(options), in_operation_(options.threads, 0) {
    for (const Machine& machine : options_.machines) machines_.emplace_back(machine);
    for (const PredictorShape& shape : {kGshare, kK7, kP6, kP6Quarter}) {
        predictors_.emplace_back(shape);
        result_.predictors.push_back({shape.name, {}, {}, {}});
    }
    counting_ = options_.warm_units == 0;
    update_role();
}

ReplayResult replay(std::span<const uint64_t> words, const ReplayOptions& options) {
    return Replay(options).run(words);
}

// A trace says where a branch leads only when it is taken; one that never is may as well lead
// forward.
void Replay::find_backward(std::span<const uint64_t> words) {
    uint64_t taken = 0;
    for (const uint64_t word : words) {
        if (kind_of(word) == kTraceRun && address_of(word) < taken) backward_.insert(taken);
        if (kind_of(word) == kTraceRun || kind_of(word) == kTraceBranch) taken = 0;
        if (kind_of(word) == kTraceBranch && (small_of(word) & 1) != 0) taken = address_of(word);
    }
}

ReplayResult Replay::run(std::span<const uint64_t> words) {
    find_backward(words);
    for (const uint64_t word : words) {
        const uint64_t address = address_of(word);
        switch (kind_of(word)) {
            case kTraceStack: on_stack(address); break;
            case kTraceMark: on_mark(small_of(word), address); break;
            default: break;
        }
        if (skipped_) continue;
        switch (kind_of(word)) {
            case kTraceRun: on_run(word); break;
            case kTraceLoad:
            case kTraceStore: on_data(address, small_of(word)); break;
            case kTraceBranch: on_branch(address, small_of(word) & 1); break;
            case kTraceCall:
                for (Predictor& predictor : predictors_) predictor.call(address);
                break;
            case kTraceIndirect:
            case kTraceReturn:
                waiting_kind_ = kind_of(word);
                waiting_target_ = address;
                break;
            case kTraceWatch: on_watch(address); break;
            default: break;
        }
    }
    result_.lines = lines_.size();
    for (Simulated& m : machines_) result_.machines.push_back(m.counts);
    if (result_.units > 0)
        result_.lines_per_unit =
            static_cast<double>(line_touches_) / static_cast<double>(result_.units);
    return result_;
}

void Replay::on_branch(uint64_t address, bool taken) {
    ++result_.branches[role_];
    const bool backward = backward_.contains(address);
    for (size_t i = 0; i < predictors_.size(); ++i)
        result_.predictors[i].branches[role_] += predictors_[i].branch(address, taken, backward);
}

void Replay::on_run(uint64_t word) {
    const uint64_t address = address_of(word);
    if (waiting_target_ != 0) {
        for (size_t i = 0; i < predictors_.size(); ++i) {
            if (waiting_kind_ == kTraceIndirect)
                result_.predictors[i].indirect[role_] +=
                    predictors_[i].indirect(waiting_target_, address);
            else result_.predictors[i].returns[role_] += predictors_[i].ret(address);
        }
        ++result_.branches[role_];
        waiting_target_ = 0;
    }
    result_.instructions[role_] += instructions_of(word);
    fetch(address, bytes_of(word), instructions_of(word) == 1);
    for (uint64_t line = address / 64; line <= (address + bytes_of(word) - 1) / 64; ++line) {
        if (line == last_line_ || role_ == Role::uncounted) continue;
        last_line_ = line;
        Line& known = lines_[line];
        if (known.last_unit == units_seen_ + 1) continue;
        known.last_unit = units_seen_ + 1;
        ++line_touches_;
    }
}

void Replay::fetch(uint64_t address, uint32_t bytes, bool one_instruction) {
    const bool once = one_instruction && options_.once_per_access;
    for (Simulated& m : machines_)
        m.use(m.l1i, address, bytes, once, m.counts.l1i[role_], m.counts.l2i[role_]);
}

void Replay::on_data(uint64_t address, uint32_t bytes) {
    ++result_.data[role_];
    for (Simulated& m : machines_)
        m.use(m.l1d, address, bytes, options_.once_per_access, m.counts.l1d[role_],
              m.counts.l2d[role_]);
}

void Replay::Simulated::use(Cache& l1, uint64_t address, uint32_t bytes, bool once,
                            uint64_t& l1_misses, uint64_t& l2_misses) {
    uint64_t missing = 0;
    const uint64_t end = l1.line_of(address + bytes - 1);
    for (uint64_t line = l1.line_of(address); line <= end; ++line) {
        if (l1.access(line)) continue;
        ++missing;
        l2_misses += l2.touch(line * l1.geometry().line, 1);
    }
    l1_misses += once && missing > 1 ? 1 : missing;
}

void Replay::on_watch(uint64_t address) {
    if (address != options_.swap) return;
    ++result_.switches[role_];
    if (options_.pad_bytes > 0) fetch(options_.pad_at, options_.pad_bytes);
}

int Replay::thread_at(uint64_t sp) const {
    const auto found = stacks_.lower_bound(sp - kStackAbove);
    return found != stacks_.end() && found->first < sp + kStackReach ? found->second : kUnknown;
}

void Replay::on_stack(uint64_t sp) {
    sp_ = sp;
    if (options_.threads == 0) return;
    thread_ = thread_at(sp);
    if (thread_ != kUnknown) inside_ = in_operation_[static_cast<size_t>(thread_)] != 0;
    if (leader_open_ && thread_ != kUnknown && thread_ != leader_) {
        leader_ = thread_;
        leader_open_ = false;
    }
    update_role();
}

void Replay::on_mark(uint32_t code, uint64_t argument) {
    if (code == kMarkUnits && options_.threads == 0) {
        begin_unit();
    } else if ((code == kMarkOpBegin || code == kMarkOpEnd) && argument < options_.threads) {
        thread_ = static_cast<int>(argument);
        stacks_[sp_] = thread_;
        inside_ = code == kMarkOpBegin;
        in_operation_[argument] = inside_;
        if (inside_) begin_operation(thread_);
    }
    update_role();
}

void Replay::begin_unit() {
    ++units_seen_;
    if (counting_) ++result_.units;
    if (units_seen_ >= options_.warm_units) counting_ = true;
}

void Replay::begin_operation(int thread) {
    if (++begun_ > options_.warm_units) counting_ = true;
    if (counting_) ++result_.units;
    units_seen_ = begun_;
    const bool round_begins = begun_ % options_.threads == 0;
    if (round_begins) {
        // Who begins last starts the team; unless alone, another one runs first.
        leader_ = thread;
        leader_open_ = options_.threads > 1;
    }
    if (options_.empty == Empty::each_operation ||
        (options_.empty == Empty::each_round && round_begins))
        make_cold();
}

void Replay::make_cold() {
    for (Predictor& predictor : predictors_) predictor.forget();
    for (Simulated& m : machines_) {
        m.l1i.clear();
        m.l1d.clear();
    }
}

void Replay::update_role() {
    skipped_ = options_.threads != 0 && !inside_;
    if (!counting_) role_ = Role::uncounted;
    else if (options_.threads == 0 || thread_ == kUnknown) role_ = Role::other;
    else role_ = thread_ == leader_ ? Role::leader : Role::follower;
}

}  // namespace lockstep::icache
