// versions.h - which version each read of a history saw, and in which order the versions came.
//
// Concepts   Reads of a list show its order: the longest one has all others as its beginnings. What
//            no read has shown was appended behind it. A register's order is known in part: the
//            first version comes first, and what a transaction writes comes behind what it has read
//            of the same object before.
//            A transaction of unknown outcome has committed if another one has seen its writes.
//            Reads of aborted transactions count as well: locks have protected them.
//            What no order of transactions can explain is a fault at once.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/isolation/levels.h"
#include "tests/isolation/observed.h"

namespace lockstep::isolation {

struct Finding {
    Anomaly anomaly = Anomaly::impossible;
    bool permitted = false;  // by the level of each transaction that it concerns
    std::string text;
};

// A read of what other transactions wrote.
struct ExternalRead {
    uint32_t txn = 0;
    Object object = {};
    Element version = kInitial;
    bool absent = false;
    Held held = Held::range;
};

class Versions {
public:
    struct Write {
        uint32_t txn = 0;
        Object object = {};
        bool erase = false;
        bool live = false;  // not undone by a rollback to a savepoint
        bool last = false;  // of its transaction's writes of the object that are live
    };
    using Elements = std::vector<Element>;

    explicit Versions(const std::vector<Observed>& history) : history_(history) {
        for (uint32_t t = 0; t < history.size(); ++t) {
            committed_.push_back(history[t].ended == Ended::committed);
            index_writes(t);
        }
        resolve_unknown();
        for (uint32_t t = 0; t < history.size(); ++t) read(t);
        order_lists();
        order_registers();
    }

    bool committed(uint32_t txn) const { return committed_[txn]; }
    const std::vector<ExternalRead>& reads() const { return reads_; }
    const std::vector<Finding>& faults() const { return faults_; }
    // The write, if its transaction has committed it.
    const Write* write_of(Element element) const {
        const auto it = writes_.find(element);
        if (it == writes_.end() || !it->second.live || !committed_[it->second.txn]) return nullptr;
        return &it->second;
    }
    bool wrote(uint32_t txn) const { return writers_.contains(txn); }
    // Committed versions that came behind `version`, each a possible next one. Of a list, those of
    // `reader` itself are passed over.
    Elements next(Object object, Element version, uint32_t reader) const {
        Elements behind;
        if (object.kind == Object::reg) {
            const auto it = succeeding_.find({object, version});
            return it == succeeding_.end() ? behind : it->second;
        }
        const auto order = orders_.find(object);
        if (order != orders_.end()) {
            auto at = order->second.begin();
            if (version != kInitial) {
                at = std::ranges::find(order->second, version);
                if (at == order->second.end()) return behind;  // a fault already
                ++at;
            }
            for (; at != order->second.end(); ++at) {
                const Write* const write = write_of(*at);
                if (write != nullptr && write->txn != reader) return {*at};
            }
        }
        const auto rest = unseen_.find(object);
        return rest == unseen_.end() ? behind : rest->second;
    }
    // Each pair of a version and one that came next.
    template <class Each>
    void each_succession(Each each) const {
        for (const auto& [from, list] : succeeding_)
            for (const Element to : list) each(from.first, from.second, to);
        for (const auto& [object, order] : orders_) {
            Element before = kInitial;
            for (const Element e : order) {
                if (write_of(e) == nullptr) continue;
                each(object, before, e);
                before = e;
            }
            const auto rest = unseen_.find(object);
            if (rest == unseen_.end()) continue;
            for (const Element e : rest->second) each(object, before, e);
        }
    }

private:
    void fault(Anomaly anomaly, uint32_t txn, const Operation& op, const std::string& what) {
        faults_.push_back({anomaly, false,
                           std::string(name_of(anomaly)) + ": " + what + ": " + Observed::text(op) +
                               "\n  T" + std::to_string(txn) + " (" + history_[txn].text() +
                               ")\n"});
    }

    void index_writes(uint32_t t) {
        std::vector<size_t> live;
        const auto& operations = history_[t].operations;
        for (size_t n = 0; n < operations.size(); ++n) {
            const Operation& op = operations[n];
            if (op.kind == Operation::rollback)
                std::erase_if(live, [&](size_t at) { return at >= op.from; });
            if (op.kind != Operation::write && op.kind != Operation::erase) continue;
            live.push_back(n);
            const bool is_new =
                writes_
                    .insert({op.element, {t, op.object, op.kind == Operation::erase, false, false}})
                    .second;
            if (!is_new) fault(Anomaly::impossible, t, op, "an element is written twice");
            if (op.kind == Operation::erase) erases_[op.object].push_back(op.element);
        }
        std::set<Object> later;
        for (auto at = live.rbegin(); at != live.rend(); ++at) {
            Write& write = writes_[operations[*at].element];
            write.live = true;
            write.last = later.insert(write.object).second;
            writers_.insert(t);
        }
    }
    // A transaction whose outcome is unknown has committed if one that has committed saw it.
    void resolve_unknown() {
        for (bool more = true; more;) {
            more = false;
            for (uint32_t t = 0; t < history_.size(); ++t) {
                if (!committed_[t]) continue;
                for (const Operation& op : history_[t].operations) {
                    for (const Element e : op.seen) more |= resolve(e);
                    more |= resolve(erase_seen(op));
                }
            }
        }
    }
    bool resolve(Element element) {
        const auto it = writes_.find(element);
        if (it == writes_.end() || committed_[it->second.txn]) return false;
        if (history_[it->second.txn].ended != Ended::unknown) return false;
        committed_[it->second.txn] = true;
        return true;
    }
    // The erase that a read of an absent register shows; kInitial if it is not known.
    Element erase_seen(const Operation& op) const {
        if (op.kind != Operation::read || op.absence != Operation::after_death) return kInitial;
        if (op.element != kInitial) return op.element;
        const auto erases = erases_.find(op.object);
        return erases != erases_.end() && erases->second.size() == 1 ? erases->second.front()
                                                                     : kInitial;
    }

    void read(uint32_t t) {
        std::vector<std::pair<size_t, const Operation*>> own;  // live at this point
        const auto& operations = history_[t].operations;
        for (size_t n = 0; n < operations.size(); ++n) {
            const Operation& op = operations[n];
            if (op.kind == Operation::rollback) {
                std::erase_if(own, [&](const auto& w) { return w.first >= op.from; });
            } else if (op.kind != Operation::read) {
                own.emplace_back(n, &op);
            } else {
                Elements written;
                bool erased = false;
                for (const auto& [at, w] : own)
                    if (w->object == op.object) {
                        written.push_back(w->element);
                        erased = w->kind == Operation::erase;
                    }
                if (op.object.kind == Object::list) read_list(t, op, written);
                else if (written.empty()) read_register(t, op);
                else if (erased ? !op.seen.empty() : op.seen != Elements{written.back()})
                    fault(Anomaly::impossible, t, op, "it does not see its own write");
            }
        }
    }
    void read_list(uint32_t t, const Operation& op, const Elements& written) {
        if (op.seen.size() < written.size() ||
            !std::equal(written.rbegin(), written.rend(), op.seen.rbegin()))
            return fault(Anomaly::impossible, t, op, "it does not see its own append");
        Elements seen(op.seen.begin(), op.seen.end() - static_cast<ptrdiff_t>(written.size()));
        const std::set<Element> distinct(op.seen.begin(), op.seen.end());
        if (distinct.size() != op.seen.size())
            fault(Anomaly::impossible, t, op, "an element is there twice");
        for (size_t n = 0; n < seen.size(); ++n) look(t, op, seen[n], n + 1 == seen.size());
        const Element version = seen.empty() ? kInitial : seen.back();
        reads_.push_back({t, op.object, version, op.absence != Operation::present, op.held});
        if (seen.size() > orders_[op.object].size()) std::swap(orders_[op.object], seen);
        lists_.push_back({t, &op, std::move(seen)});
        // The shorter one of the two: it must be the beginning of the longest, order_lists().
    }
    void read_register(uint32_t t, const Operation& op) {
        ExternalRead read{t, op.object, kInitial, op.seen.empty(), op.held};
        if (!op.seen.empty()) {
            read.version = op.seen.back();
            look(t, op, read.version, true);
        } else if (op.absence != Operation::before_birth) {
            const auto erases = erases_.find(op.object);
            const bool dead = op.absence == Operation::after_death;
            if (erases == erases_.end()) {
                if (dead) fault(Anomaly::impossible, t, op, "it is gone, and nobody erased it");
            } else if (erase_seen(op) != kInitial) {
                read.version = erase_seen(op);
                look(t, op, read.version, true);
            } else {
                return;  // which one is not known
            }
        }
        reads_.push_back(read);
    }
    // One element that a read saw; `last`: it names the version.
    void look(uint32_t t, const Operation& op, Element element, bool last) {
        const auto it = writes_.find(element);
        const std::string name = std::to_string(element);
        if (it == writes_.end() || it->second.object != op.object)
            return fault(Anomaly::impossible, t, op, "nobody wrote " + name);
        const Write& write = it->second;
        if (write.txn == t)
            return fault(Anomaly::dirty_read, t, op, "it sees " + name + ", which it has undone");
        const std::string writer = "T" + std::to_string(write.txn);
        if (!write.live || !committed_[write.txn])
            fault(Anomaly::dirty_read, t, op,
                  "aborted read: " + writer + (last ? "" : " under a later write") +
                      " has undone " + name);
        else if (last && !write.last)
            fault(Anomaly::dirty_read, t, op,
                  "intermediate read: " + name + " is not the last one of " + writer);
    }

    void order_lists() {
        for (const List& list : lists_) {
            const Elements& longest = orders_[list.op->object];
            if (!std::equal(list.seen.begin(), list.seen.end(), longest.begin()))
                fault(Anomaly::impossible, list.txn, *list.op,
                      "its order contradicts that of another read");
        }
        for (const auto& [element, write] : writes_) {
            if (write.object.kind != Object::list || write_of(element) == nullptr) continue;
            const Elements& order = orders_[write.object];
            if (std::ranges::find(order, element) == order.end())
                unseen_[write.object].push_back(element);
        }
    }
    void order_registers() {
        for (const auto& [element, write] : writes_)
            if (write.object.kind == Object::reg && write.last && write_of(element) != nullptr)
                succeeding_[{write.object, kInitial}].push_back(element);
        // What a transaction has read last before its first write comes before its last write.
        std::map<std::pair<uint32_t, Object>, Element> seen;
        for (const ExternalRead& read : reads_)
            if (read.object.kind == Object::reg) seen[{read.txn, read.object}] = read.version;
        for (const auto& [element, write] : writes_) {
            if (write.object.kind != Object::reg || !write.last || write_of(element) == nullptr)
                continue;
            const auto before = seen.find({write.txn, write.object});
            if (before == seen.end() || before->second == kInitial) continue;
            if (write_of(before->second) != nullptr)
                succeeding_[{write.object, before->second}].push_back(element);
        }
    }

    struct List {
        uint32_t txn;
        const Operation* op;
        Elements seen;
    };
    const std::vector<Observed>& history_;
    std::vector<bool> committed_;
    std::map<Element, Write> writes_;
    std::set<uint32_t> writers_;
    std::map<Object, Elements> erases_, unseen_;
    std::map<Object, Elements> orders_;  // the longest read of each list
    std::vector<ExternalRead> reads_;
    std::vector<List> lists_;
    std::map<std::pair<Object, Element>, Elements> succeeding_;
    std::vector<Finding> faults_;
};

}  // namespace lockstep::isolation
