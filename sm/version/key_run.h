// key_run.h - keys that one change inserts side by side and that have one version together.
//
// Concepts   A *run* is keys of one length that differ only in their last byte and that no leaf had
//            before. Their version is named by the bytes that they share, as a record of an object
//            that no index has. Its bytes are the last bytes of the keys. It says that the keys did
//            not exist.
//            The versions of one name form a chain as others do, but they may be of different keys,
//            so none of them is renewed, and VT-2 holds for those that have a key in common.
// Invariants KR-1 A run is older than the versions that its keys have by themselves. Those of its
//                 writer say the same as the run. A key that has versions and is in no leaf is an
//                 erased key (EK-1), and an index with erased keys gets no runs.
//            KR-2 Writers in several leaves may change the chain of one name at the same time. So
//                 its state is read and changed under one hold of the bucket's lock.
//                 [test: SnapshotRun.RunsOfOnePrefixAreMadeByTwoWorkersAtOnce]
// Blocking   Nothing here parks.
#pragma once

#include <cstring>

#include "sm/version/version.h"

namespace lockstep::sm {

constexpr size_t kRunKeysMax = 16;

// No object has this bit in its number.
constexpr uint32_t kRunObject = 1u << 31;
inline ObjectId object_of_runs(ObjectId object) {
    DCHECK(object.value != 0 && (object.value & kRunObject) == 0);
    return ObjectId{object.value | kRunObject};
}

// The name of the runs that may have the key, which is not empty.
inline RecordName name_of_run(ObjectId object, Slice key) {
    return name_of_key(object_of_runs(object), key.substr(0, key.size() - 1));
}

// Does the run, whose name fits, have the key?
inline bool run_has(const Version& run, Slice key) {
    DCHECK((run.object.value & kRunObject) != 0 && run.key_bytes + 1u == key.size());
    const Slice ends = run.bytes();
    return std::memchr(ends.data(), key.back(), ends.size()) != nullptr;
}

}  // namespace lockstep::sm
