// optimistic_readers.h - what the thread sanitizer need not report: one source of a program that
// runs transactions beside others includes this header.
//
// Concepts   An optimistic reader of a page looks at its version after it has read and reads again
//            if a writer came between. To the thread sanitizer that is a race. The functions below
//            read so and never write.
#pragma once

// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" const char* __tsan_default_suppressions();
const char* __tsan_default_suppressions() {  // NOLINT
    return "race:lockstep::sm::BTree::descend\n"
           "race:lockstep::sm::BTree::fetch_alone\n"
           "race:lockstep::sm::BTree::locate\n"
           "race:lockstep::sm::BTreeCursor::move_once\n"
           "race:lockstep::sm::LookAhead::look\n";
}
