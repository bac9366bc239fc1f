# Precompiled headers. Half of the compiler's work on a source of this project is to read headers of
# the standard library. ccache cannot keep what is compiled with precompiled headers, so
# LOCKSTEP_PCH is for builds that begin with nothing (tools/run). Headers full of code, as those of
# CLI11 and nlohmann_json, do not belong here: each source would compile that code again.
#
# lockstep_precompile(TARGET headers): TARGET is compiled with these headers and the commonest of
# the standard library.
function(lockstep_precompile target)
    if(NOT LOCKSTEP_PCH)
        return()
    endif()
    target_precompile_headers(${target} PRIVATE ${ARGN} <algorithm> <array> <atomic> <cstring>
        <functional> <map> <memory> <optional> <span> <string> <string_view> <utility> <vector>)
    target_compile_options(${target} PRIVATE ${LOCKSTEP_PCH_OPTIONS})
endfunction()

# In precompiled headers, g++ 12 forgets that the standard library's headers are a system's, and
# shows its own false warnings of std::string + std::string.
set(LOCKSTEP_PCH_OPTIONS)
if(LOCKSTEP_PCH AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    foreach(warning array-bounds restrict stringop-overflow)
        list(APPEND LOCKSTEP_PCH_OPTIONS $<$<COMPILE_LANGUAGE:CXX>:-Wno-${warning}>)
    endforeach()
endif()
