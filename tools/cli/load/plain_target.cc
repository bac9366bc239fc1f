// plain_target.cc - the store's description, or the user's.
#include "tools/cli/load/plain_target.h"

#include <algorithm>

#include "tools/cli/rows/row_format.h"
#include "tools/cli/rows/row_reader.h"

namespace lockstep::cli {
namespace {

constexpr const char* kExample = "--describe 'id u32 key, name text8 value 0'";

std::string names_of(const std::vector<Store::Entry>& list) {
    std::string names;
    for (const Store::Entry& entry : list)
        if (!entry.name.starts_with("lockstep."))
            names += (names.empty() ? "" : ", ") + readable(entry.name);
    return names.empty() ? "the store has none" : "the store has " + names;
}

}  // namespace

PlainTarget find_plain_target(Store& store, const std::string& object,
                              const std::optional<std::string>& describe) {
    PlainTarget target{.object = object, .columns = {}};
    const std::string name = readable(object);
    const auto list = store.list();
    const auto entry = std::ranges::find(list, object, &Store::Entry::name);
    const bool there = entry != list.end();
    if (!there && !describe)
        throw Failed("there is no index or heap " + name + ", " + names_of(list) + " (" + kExample +
                     " makes one)");
    if (describe) {
        const auto parsed = Columns::parse(*describe);
        if (!parsed) throw Failed("--describe: " + parsed.error().text());
        target.columns = *parsed;
        target.describes = true;
    }
    target.is_index = there ? entry->is_index
                            : std::ranges::any_of(target.columns.all(), [](const Column& column) {
                                  return column.place == ColumnPlace::key;
                              });
    if (!there) return target;
    const auto stored = store.columns(object);
    if (!stored && stored.error().code != ErrorCode::no_such_record)
        throw Failed(name + ": " + stored.error().text());
    if (!stored && !describe)
        throw Failed(name + " is not described: lockstep describe, or " + kExample +
                     ", says what its bytes mean");
    if (stored && describe && *stored != target.columns)
        throw Failed(name +
                     " is described otherwise (leave --describe out, or change the columns "
                     "with lockstep describe)");
    if (stored) target.columns = *stored;
    target.describes = !stored;
    return target;
}

}  // namespace lockstep::cli
