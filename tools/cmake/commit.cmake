# Writes the source file OUT, which knows the version and the commit of the sources in SOURCE. It
# runs at each build, and touches the file only if the commit has changed.
set(commit unknown)
execute_process(COMMAND git -C ${SOURCE} rev-parse --short=12 HEAD OUTPUT_VARIABLE found
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(NOT failed)
    set(commit ${found})
    execute_process(COMMAND git -C ${SOURCE} diff --quiet HEAD ERROR_QUIET RESULT_VARIABLE changed)
    if(changed)
        string(APPEND commit "+changes")
    endif()
endif()
file(CONFIGURE OUTPUT ${OUT} CONTENT "// commit.cc - made by commit.cmake.
#include \"tools/base/build_info.h\"
namespace lockstep {
const char* built_version() { return \"${VERSION}\"; }
const char* built_commit() { return \"${commit}\"; }
}  // namespace lockstep
")
