# The fuzz targets: with LOCKSTEP_FUZZ (clang) one libFuzzer program each; their corpus runs as a
# test in every build.
set(LOCKSTEP_FUZZ_TARGETS page log superblock image api c columns)
file(GLOB fuzz_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/fuzz/*.cc)
list(FILTER fuzz_sources EXCLUDE REGEX "_test\\.cc$|fuzz_main\\.cc$")
add_library(lockstep_fuzz_targets OBJECT ${fuzz_sources})
target_include_directories(lockstep_fuzz_targets PUBLIC ${CMAKE_SOURCE_DIR})
target_link_libraries(lockstep_fuzz_targets PUBLIC lockstep_flags PkgConfig::XXHASH)
if(LOCKSTEP_FUZZ)
    foreach(target ${LOCKSTEP_FUZZ_TARGETS})
        add_executable(fuzz-${target} ${CMAKE_SOURCE_DIR}/tests/fuzz/fuzz_main.cc)
        target_compile_definitions(fuzz-${target} PRIVATE FUZZ_TARGET=fuzz_${target})
        target_link_libraries(fuzz-${target} PRIVATE lockstep_fuzz_targets lockstep_sm lockstep_txn
            lockstep_threads)
        target_link_options(fuzz-${target} PRIVATE -fsanitize=fuzzer)
    endforeach()
    list(TRANSFORM LOCKSTEP_FUZZ_TARGETS PREPEND fuzz- OUTPUT_VARIABLE programs)
    add_custom_target(fuzzers DEPENDS ${programs})
endif()
