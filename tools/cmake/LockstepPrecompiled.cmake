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

# lockstep_unite(TARGET): its sources are compiled a dozen at a time, as one. The compiler reads
# headers full of code, such as those of CLI11 and GoogleTest, and instantiates templates of the
# standard library once for all of them. So names in anonymous namespaces differ within a target.
function(lockstep_unite target)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
    if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
        # An included source may have types without linkage.
        target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
    endif()
endfunction()

# In precompiled headers, g++ 12 forgets that the standard library's headers are a system's, and
# shows its own false warnings of std::string + std::string.
set(LOCKSTEP_PCH_OPTIONS)
if(LOCKSTEP_PCH AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    foreach(warning array-bounds restrict stringop-overflow)
        list(APPEND LOCKSTEP_PCH_OPTIONS $<$<COMPILE_LANGUAGE:CXX>:-Wno-${warning}>)
    endforeach()
endif()
