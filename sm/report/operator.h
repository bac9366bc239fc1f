// operator.h - what an operator is to its stage: it takes batches, and makes batches.
//
// Concepts   An operator never waits and knows neither threads nor buffers. Its stage (flow.h) asks
//            which input it needs, gives it one batch of it, and takes what it has made. A step
//            handles about kBatchRows rows, so a thread can rest between steps.
//            For several reports of one shape there is one operator, which has the nodes of all;
//            its rows carry ids (batch.h).
// Blocking   bind() and step() lock the mutexes of Texts and IdSets, for a batch each.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "sm/report/batch.h"
#include "sm/report/id_sets.h"
#include "sm/report/plan_node.h"
#include "sm/report/texts.h"

namespace lockstep::sm::report {

// The same node of the plans of all reports that run as one.
using Nodes = std::vector<const PlanNode*>;

struct Shared {
    std::shared_ptr<Texts> texts;
    std::shared_ptr<IdSets> sets;
    bool many() const { return sets->reports() > 1; }
};

struct Step {
    // again: it needs another step. pending: not before its source has rows. ended: it has made all
    // its rows.
    enum class Then : uint8_t { again, pending, ended } then = Then::again;
    std::vector<BatchRef> made = {};
};

class Operator {
public:
    static constexpr size_t kNone = ~size_t{0};

    Operator() = default;
    virtual ~Operator() = default;
    Operator(const Operator&) = delete;
    Operator& operator=(const Operator&) = delete;

    // The schema of its rows, of those of its inputs. Once, before the first step. Errors:
    // bad_argument.
    virtual Result<Schema> bind(std::span<const Schema* const> inputs) = 0;
    // The input that the next step needs; kNone: none.
    virtual size_t wants() const = 0;
    // `batch` of that input; null: the input has ended, or none was wanted.
    virtual Result<Step> step(const BatchRef& batch) = 0;
    // Of a scan: the share of its rows that it has read.
    virtual double progress() const { return 0; }
};

// Where a scan has its rows from.
class Source {
public:
    Source() = default;
    virtual ~Source() = default;
    Source(const Source&) = delete;
    Source& operator=(const Source&) = delete;
    virtual const Schema& schema() const = 0;
    // Sets `out` to the next rows. pending: there are none yet; the function given to watch() will
    // be called. Never waits. Errors: those of reading.
    enum class Pull : uint8_t { rows, pending, ended };
    virtual Result<Pull> pull(BatchRef& out) = 0;
    // Calls `ready` when there is more, and possibly more often; after clear() not any more.
    virtual void watch(std::function<void()> ready) = 0;
    virtual double progress() const = 0;
};

// The kinds of operators that have a stage each.
enum class StageKind : uint8_t { scan, filter, build, probe, merge, group, sort, sink };
inline constexpr size_t kStages = 8;

// When a report that comes later may still use a running operator of another one (the thesis's
// windows of opportunity), before its first row and from then on. linear: of a scan, whose pass
// gives the rest of its lap to all; step: while the rows so far are still in memory; full: always.
enum class Window : uint8_t { linear, step, full };
struct StageRow {
    StageKind kind;
    const char* name;
    Window before, after;
};
inline constexpr StageRow kStageTable[kStages] = {
    {StageKind::scan, "scan", Window::full, Window::linear},
    {StageKind::filter, "filter", Window::full, Window::step},
    {StageKind::build, "build", Window::full, Window::full},
    {StageKind::probe, "probe", Window::full, Window::step},
    {StageKind::merge, "merge", Window::full, Window::step},
    {StageKind::group, "group", Window::full, Window::step},
    {StageKind::sort, "sort", Window::full, Window::step},
    {StageKind::sink, "sink", Window::full, Window::step},
};
consteval bool stages_in_order() {
    for (size_t i = 0; i < kStages; ++i)
        if (kStageTable[i].kind != static_cast<StageKind>(i)) return false;
    return true;
}
static_assert(stages_in_order());

// Conditions of the nodes on columns; used within an operator.
class Conditions;

std::unique_ptr<Operator> make_scan(Nodes nodes, Shared shared, std::shared_ptr<Source> source);
std::unique_ptr<Operator> make_filter(Nodes nodes, Shared shared);
std::unique_ptr<Operator> make_compute(Nodes nodes, Shared shared);
std::unique_ptr<Operator> make_build(Nodes nodes, Shared shared);
std::unique_ptr<Operator> make_probe(Nodes nodes, Shared shared);
std::unique_ptr<Operator> make_merge(Nodes nodes, Shared shared);
std::unique_ptr<Operator> make_group(Nodes nodes, Shared shared);
std::unique_ptr<Operator> make_sort(Nodes nodes, Shared shared);
// Puts the rows of each report into its place of `rows`.
std::unique_ptr<Operator> make_sink(Shared shared, std::vector<Rows>& rows);

// The conditions of a scan that its source may apply for all reports: those that are the same in
// all, and ranges that hold what any of them wants.
std::vector<Where> pushed_down(const Nodes& nodes);

[[gnu::cold]] Unexpected no_column(std::string_view name);
[[gnu::cold]] Unexpected overflow();

}  // namespace lockstep::sm::report
