// reference.h - a plan together with its rows, computed in the simplest way.
#pragma once

#include "tests/sm/report/operators_test_util.h"

namespace lockstep::sm::report::in_memory {

class Reference {
public:
    static Reference scan(const std::string& name, const Table& table,
                          std::vector<std::string> columns, const std::vector<Where>& where = {}) {
        Reference out(Plan::scan(name, columns, where), columns);
        const Schema all = integers(table.names);
        for (const Row& row : table.rows) {
            if (!out.all_meet(row, all, where)) continue;
            Row& mine = out.rows.emplace_back();
            for (const std::string& column : columns) mine.push_back(row[*all.find(column)]);
        }
        return out;
    }
    Reference where(const std::vector<Where>& where) const {
        Reference out(plan.where(where), names);
        for (const Row& row : rows)
            if (all_meet(row, integers(names), where)) out.rows.push_back(row);
        return out;
    }
    // a - b of two columns.
    Reference difference(const std::string& name, const std::string& a,
                         const std::string& b) const {
        Reference out(plan.compute(name, col(a) - col(b)), names);
        out.names.push_back(name);
        for (Row row : rows) {
            const Value x = row[at(a)], y = row[at(b)];
            row.push_back(x && y ? Value(*x - *y) : Value());
            out.rows.push_back(row);
        }
        return out;
    }
    Reference semi_join(const Reference& other, const JoinKey& key) const {
        Reference out(plan.semi_join(other.plan, {key}), names);
        for (const Row& row : rows)
            if (std::ranges::any_of(other.rows,
                                    [&](const Row& o) { return equal(row, o, other, key); }))
                out.rows.push_back(row);
        return out;
    }
    Reference join(const Reference& other, const JoinKey& key, bool left = false) const {
        Reference out(left ? plan.left_join(other.plan, {key}) : plan.join(other.plan, {key}),
                      names);
        std::vector<size_t> added;
        for (size_t i = 0; i < other.names.size(); ++i)
            if (left || other.names[i] != key.right) {
                added.push_back(i);
                out.names.push_back(other.names[i]);
            }
        for (const Row& row : rows) {
            bool met = false;
            const auto add = [&](const Row* o) {
                Row both = row;
                for (const size_t i : added) both.push_back(o ? (*o)[i] : Value());
                out.rows.push_back(both);
                met = true;
            };
            for (const Row& o : other.rows)
                if (equal(row, o, other, key)) add(&o);
            if (left && !met) add(nullptr);
        }
        return out;
    }
    // count, sum, least and greatest of a column.
    Reference group(const std::vector<std::string>& by, const std::string& of) const {
        Reference out(
            plan.group(by, {Aggregate::count("count"), Aggregate::sum(col(of), "sum"),
                            Aggregate::min(col(of), "min"), Aggregate::max(col(of), "max")}),
            by);
        for (const char* name : {"count", "sum", "min", "max"}) out.names.emplace_back(name);
        std::map<Row, std::vector<Row>> groups;
        if (by.empty()) groups[{}];
        for (const Row& row : rows) {
            Row key;
            for (const std::string& name : by) key.push_back(row[at(name)]);
            groups[key].push_back(row);
        }
        for (const auto& [key, members] : groups) {
            int64_t sum = 0;
            Value least, most;
            for (const Row& row : members)
                if (const Value value = row[at(of)]) {
                    sum += *value;
                    least = std::min(least.value_or(*value), *value);
                    most = std::max(most.value_or(*value), *value);
                }
            Row row = key;
            row.push_back(static_cast<int64_t>(members.size()));
            row.push_back(sum);
            row.push_back(least);
            row.push_back(most);
            out.rows.push_back(row);
        }
        return out;
    }
    // By all columns, so that the order is of one kind only.
    Reference top(size_t count) const {
        std::vector<SortKey> by;
        for (const std::string& name : names) by.push_back({name});
        Reference out(plan.top(count, by), names);
        out.rows = rows;
        std::ranges::sort(out.rows);
        out.rows.resize(std::min(out.rows.size(), count));
        return out;
    }
    std::vector<Row> sorted() const {
        std::vector<Row> out = rows;
        std::ranges::sort(out);
        return out;
    }

    Plan plan;
    std::vector<std::string> names;
    std::vector<Row> rows = {};

private:
    Reference(Plan of, std::vector<std::string> columns)
        : plan(std::move(of)), names(std::move(columns)) {}
    size_t at(const std::string& name) const { return *integers(names).find(name); }
    static bool all_meet(const Row& row, const Schema& schema, const std::vector<Where>& where) {
        return std::ranges::all_of(
            where, [&](const Where& one) { return meets(row[*schema.find(one.column)], one); });
    }
    bool equal(const Row& row, const Row& o, const Reference& other, const JoinKey& key) const {
        const Value a = row[at(key.left)], b = o[other.at(key.right)];
        return a && b && *a == *b;
    }
};

}  // namespace lockstep::sm::report::in_memory
