// checker.h - judges a history of concurrent transactions: which anomalies it shows, and whether
// the levels of the transactions permit them.
//
// Concepts   The checker builds the graph of what came before what: overwrites (ww), reads (wr),
//            anti-dependencies (rw: the reader missed a version), the order of each process, and
//            real time. Levels may be mixed. Overwrites and reads count always. An anti-dependency
//            counts if the level of its reader promises that what was read stays (Held). In this
//            store all that counts follows the order of the commit records. So the counted edges
//            must not form a cycle, not even together with real time.
//            Each kind of cycle is searched by itself, from the worst to the mildest, first with
//            data alone, then with sessions, then with real time. The report has the shortest one.
// Source     A. Adya, 1999 (kinds of cycles; mixed levels); K. Kingsbury, P. Alvaro, "Elle", 2020.
#pragma once

#include <numeric>
#include <string>
#include <vector>

#include "tests/isolation/dependency_graph.h"
#include "tests/isolation/versions.h"

namespace lockstep::isolation {

class Checker {
public:
    explicit Checker(std::vector<Observed> history)
        : history_(std::move(history)), versions_(history_), graph_(history_.size()) {
        findings_ = versions_.faults();
        add_reads();
        add_overwrites();
        find_cycles(kData, "");
        add_processes();
        find_cycles(kSessions, " in a session");
        add_time();
        find_cycles(kTime, " in real time");
    }
    Checker(const Checker&) = delete;
    Checker& operator=(const Checker&) = delete;

    const std::vector<Finding>& findings() const { return findings_; }
    bool shows(Anomaly anomaly, bool permitted) const {
        return std::ranges::any_of(findings_, [&](const Finding& f) {
            return f.anomaly == anomaly && f.permitted == permitted;
        });
    }
    bool sound() const {
        return std::ranges::all_of(findings_, [](const Finding& f) { return f.permitted; });
    }
    // What is forbidden, in words; the first few findings.
    std::string text() const {
        std::string out;
        int printed = 0;
        for (const Finding& f : findings_)
            if (!f.permitted && ++printed <= 3) out += f.text;
        if (printed > 3) out += "and " + std::to_string(printed - 3) + " more\n";
        return out;
    }
    size_t edges() const { return graph_.edges(); }

private:
    enum Scope : uint8_t { kData, kSessions, kTime };

    void add_reads() {
        for (const ExternalRead& read : versions_.reads()) {
            if (const auto* write = versions_.write_of(read.version))
                graph_.add({write->txn, read.txn, EdgeKind::wr, true, read.object, read.version,
                            read.version});
            const bool counted = read.absent ? read.held == Held::range : read.held >= Held::record;
            for (const Element next : versions_.next(read.object, read.version, read.txn))
                graph_.add({read.txn, versions_.write_of(next)->txn,
                            read.absent ? EdgeKind::rw_absent : EdgeKind::rw_record, counted,
                            read.object, read.version, next});
        }
    }
    void add_overwrites() {
        versions_.each_succession([&](Object object, Element was, Element is) {
            const auto* const before = versions_.write_of(was);
            if (before == nullptr) return;
            graph_.add(
                {before->txn, versions_.write_of(is)->txn, EdgeKind::ww, true, object, was, is});
        });
    }
    std::vector<uint32_t> in_order_of(uint64_t Observed::*time) const {
        std::vector<uint32_t> order(history_.size());
        std::iota(order.begin(), order.end(), 0u);
        std::ranges::stable_sort(order, {}, [&](uint32_t t) { return history_[t].*time; });
        return order;
    }
    void add_processes() {
        std::map<uint32_t, uint32_t> last;
        for (const uint32_t t : in_order_of(&Observed::began)) {
            const auto [at, first] = last.insert({history_[t].process, t});
            if (!first) graph_.add({at->second, t, EdgeKind::process});
            at->second = t;
        }
    }
    // What has no known end has no moment. Aborted transactions have one: what they read counts.
    void add_time() {
        const std::vector<uint32_t> ends = in_order_of(&Observed::ended_at),
                                    begins = in_order_of(&Observed::began);
        size_t next = 0;
        uint32_t moment = UINT32_MAX;
        for (const uint32_t t : begins) {
            for (; next < ends.size() && history_[ends[next]].ended_at < history_[t].began;
                 ++next) {
                if (history_[ends[next]].ended == Ended::unknown) continue;
                const uint32_t now = graph_.add_node();
                if (moment != UINT32_MAX) graph_.add({moment, now, EdgeKind::time});
                graph_.add({ends[next], now, EdgeKind::time});
                moment = now;
            }
            if (moment != UINT32_MAX) graph_.add({moment, t, EdgeKind::time});
        }
    }

    // Cycles of edges up to `scope`.
    void find_cycles(Scope scope, const char* where) {
        const auto order = [scope](const Edge& e) {
            return (e.kind == EdgeKind::process && scope >= kSessions) ||
                   (e.kind == EdgeKind::time && scope >= kTime);
        };
        const auto is_ww = [](const Edge& e) { return e.kind == EdgeKind::ww; };
        const auto is_wr = [](const Edge& e) { return e.kind == EdgeKind::wr; };
        const auto known = [&](const Edge& e) { return is_ww(e) || is_wr(e) || order(e); };
        const auto overwrites = [&](const Edge& e) { return is_ww(e) || order(e); };
        report(graph_.shortest(is_ww, overwrites), Anomaly::dirty_write, false, where);
        report(graph_.shortest(is_wr, known), Anomaly::circular, false, where);
        for (const bool permitted : {false, true}) {
            if (permitted && scope != kData) continue;
            const auto all = [&](const Edge& e) {
                return known(e) || (e.is_rw() && (e.counted || permitted));
            };
            const auto records = [&](const Edge& e) {
                return all(e) && e.kind != EdgeKind::rw_absent;
            };
            const auto writers = [&](const Edge& e) {
                return records(e) && !is_wr(e) && !order(e);
            };
            const auto record = [&](const Edge& e) {
                return e.kind == EdgeKind::rw_record && e.counted != permitted;
            };
            const auto absent = [&](const Edge& e) {
                return e.kind == EdgeKind::rw_absent && e.counted != permitted;
            };
            const uint32_t tries = permitted ? 300 : UINT32_MAX;
            const auto one_object = [](const Graph::Cycle& cycle) {
                return std::ranges::all_of(
                    cycle, [&](const Edge& e) { return e.object == cycle.front().object; });
            };
            const auto several = [](const Graph::Cycle& cycle) {
                return std::ranges::count_if(cycle, &Edge::is_rw) > 1;
            };
            report(graph_.shortest(record, writers, tries, one_object), Anomaly::lost_update,
                   permitted, where);
            report(graph_.shortest(record, known, tries), Anomaly::fuzzy_read, permitted, where);
            report(graph_.shortest(absent, all, tries), Anomaly::phantom, permitted, where);
            report(graph_.shortest(record, records, tries, several), Anomaly::write_skew, permitted,
                   where);
        }
    }
    void report(const Graph::Cycle& cycle, Anomaly anomaly, bool permitted, const char* where) {
        if (cycle.empty() || shows(anomaly, permitted)) return;
        if (anomaly == Anomaly::write_skew &&
            std::ranges::any_of(cycle, [&](const Edge& e) { return !writes(e.from); }))
            anomaly = Anomaly::read_only;
        if (shows(anomaly, permitted)) return;
        std::string text = std::string(name_of(anomaly)) + where + ":\n";
        for (const Edge& e : cycle) text += describe(e);
        for (const Edge& e : cycle)
            if (e.from < history_.size())
                text += "  T" + std::to_string(e.from) + " (" + history_[e.from].text() + ")\n";
        findings_.push_back({anomaly, permitted, std::move(text)});
    }
    // A moment is no transaction.
    bool writes(uint32_t node) const { return node >= history_.size() || versions_.wrote(node); }
    std::string describe(const Edge& e) const {
        const bool leaves = e.from < history_.size(), arrives = e.to < history_.size();
        if (!leaves && !arrives) return "";
        if (!arrives) return "  T" + std::to_string(e.from) + " had ended before\n";
        const std::string to = "T" + std::to_string(e.to);
        if (!leaves) return "  " + to + " began\n";
        std::string out = "  T" + std::to_string(e.from) + " -" +
                          kEdgeNames[static_cast<size_t>(e.kind)] + "-> " + to;
        const std::string was = std::to_string(e.was), is = std::to_string(e.is),
                          of = " of " + e.object.text();
        if (e.kind == EdgeKind::ww) out += ": " + is + of + " came behind " + was;
        if (e.kind == EdgeKind::wr) out += ": it read " + is + of;
        if (e.is_rw()) out += ": it read " + was + of + ", before " + is;
        return out + (e.is_rw() && !e.counted ? " (not promised)\n" : "\n");
    }

    const std::vector<Observed> history_;
    const Versions versions_;
    Graph graph_;
    std::vector<Finding> findings_;
};

}  // namespace lockstep::isolation
