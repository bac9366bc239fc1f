# Tests: <name>_test.cc in tests/<layer> or a folder below it becomes the program
# <layer>_<name>_test, linked with its layer and those below. The first line "// labels: unit model"
# of a file gives its ctest labels; default "unit".
find_package(GTest REQUIRED)
include(GoogleTest)

set(LOCKSTEP_TEST_LIBS_threads lockstep_threads)
set(LOCKSTEP_TEST_LIBS_txn lockstep_txn lockstep_threads)
set(LOCKSTEP_TEST_LIBS_sm lockstep_sm lockstep_txn lockstep_threads)
set(LOCKSTEP_TEST_LIBS_sim lockstep_sm lockstep_txn lockstep_threads)
set(LOCKSTEP_TEST_LIBS_isolation lockstep_sm lockstep_txn lockstep_threads)
set(LOCKSTEP_TEST_LIBS_tpcc lockstep_tpcc lockstep_sm lockstep_txn lockstep_threads)
set(LOCKSTEP_TEST_LIBS_tools lockstep_xa lockstep_icache lockstep_tpcc lockstep_sm lockstep_txn
    lockstep_threads)
set(LOCKSTEP_TEST_LAYERS threads txn sm sim isolation fuzz tpcc)
if(TARGET lockstep_icache)
    list(APPEND LOCKSTEP_TEST_LAYERS tools)
endif()

set(LOCKSTEP_TEST_LIBS_fuzz lockstep_fuzz_targets lockstep_sm lockstep_txn lockstep_threads)
include(${CMAKE_SOURCE_DIR}/tests/fuzz/fuzz.cmake)
# A sanitizer makes the engine large, and linking it into each of two hundred programs took longer
# than compiling it. There they share one library, whatever their layer.
if(LOCKSTEP_SANITIZE)
    add_library(lockstep_tested SHARED)
    target_link_libraries(lockstep_tested PUBLIC lockstep_sm lockstep_txn lockstep_threads)
    foreach(layer threads txn sm sim isolation tpcc fuzz)
        list(REMOVE_ITEM LOCKSTEP_TEST_LIBS_${layer} lockstep_sm lockstep_txn lockstep_threads)
        list(APPEND LOCKSTEP_TEST_LIBS_${layer} lockstep_tested)
    endforeach()
endif()

set(seconds 300)
if(LOCKSTEP_COVERAGE)
    set(seconds 1500)                        # not optimised, and counting
endif()
# A test computes little itself, and to optimise its many checks, with a sanitizer's around each,
# was half of that build. A test with the label `model` computes much: it is always optimised.
set(optimised -O1)
if(LOCKSTEP_SANITIZE)
    set(optimised -O0)
endif()
# Tests that open a store mostly wait for the disk. The release build runs each of them there, but
# for those with the label `memory`. The second run with STEPS on, and the sanitizers' builds, keep
# their files in memory where several tests have room at a time.
set(in_memory "")
execute_process(COMMAND df --block-size=1M --output=fstype,avail /dev/shm OUTPUT_VARIABLE room
    ERROR_QUIET)
if(room MATCHES "tmpfs +([0-9]+)" AND CMAKE_MATCH_1 GREATER 4000)
    set(in_memory TMPDIR=/dev/shm)
endif()
# The headers that all tests share (LockstepPrecompiled.cmake).
if(LOCKSTEP_PCH)
    # A program, as the tests are: the headers of a library are compiled with other flags.
    file(WRITE ${CMAKE_BINARY_DIR}/test_headers.cc "int main() {}")
    add_executable(lockstep_test_headers EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/test_headers.cc)
    target_link_libraries(lockstep_test_headers PRIVATE lockstep_flags GTest::gtest)
    target_compile_options(lockstep_test_headers PRIVATE ${optimised} ${LOCKSTEP_PCH_OPTIONS})
    lockstep_precompile(lockstep_test_headers <gtest/gtest.h> <filesystem> <fstream> <set> <thread>)
endif()
# lockstep_sees_steps(FILE RESULT): whether the test source, or a test header that it includes,
# takes its STEPS options from the environment (tests/steps_of_run.h).
function(lockstep_sees_steps file result)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    file(READ ${file} text)
    string(FIND "${text}" "steps_of_run" place)
    if(place GREATER_EQUAL 0)
        set(${result} TRUE PARENT_SCOPE)
        return()
    endif()
    string(REGEX MATCHALL "#include \"tests/[^\"]+\"" includes "${text}")
    foreach(include ${includes})
        string(REGEX REPLACE "#include \"(.*)\"" "\\1" header ${include})
        lockstep_sees_steps(${CMAKE_SOURCE_DIR}/${header} found)
        if(found)
            set(${result} TRUE PARENT_SCOPE)
            return()
        endif()
    endforeach()
    set(${result} FALSE PARENT_SCOPE)
endfunction()
foreach(layer ${LOCKSTEP_TEST_LAYERS})
    file(GLOB_RECURSE files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/${layer}/*_test.cc)
    foreach(file ${files})
        get_filename_component(name ${file} NAME_WE)
        set(target ${layer}_${name})
        add_executable(${target} ${file})
        target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR})
        target_link_libraries(${target} PRIVATE lockstep_flags ${LOCKSTEP_TEST_LIBS_${layer}}
            GTest::gtest_main)
        file(STRINGS ${file} first LIMIT_COUNT 1)
        set(labels unit)
        if(first MATCHES "^// labels: (.*)$")
            # One word: ctest's -L takes a pattern, and discovery no lists.
            string(REPLACE " " "." labels "${CMAKE_MATCH_1}")
        endif()
        list(APPEND LOCKSTEP_TEST_PROGRAMS ${target})
        if(labels MATCHES "model" AND LOCKSTEP_SANITIZE)
            target_compile_options(${target} PRIVATE -O1)
        elseif(NOT labels MATCHES "perf")
            target_compile_options(${target} PRIVATE ${optimised})
            if(LOCKSTEP_PCH)
                target_compile_options(${target} PRIVATE ${LOCKSTEP_PCH_OPTIONS})
                target_precompile_headers(${target} REUSE_FROM lockstep_test_headers)
            endif()
        endif()
        if(labels MATCHES "tsan")
            list(APPEND LOCKSTEP_TSAN_PROGRAMS ${target})
        elseif(LOCKSTEP_SANITIZE STREQUAL thread)
            continue()                       # not built there, so nothing to discover
        endif()
        # What runs transactions does so a second time in teams; the sanitizers see that in
        # steps_test and sim.
        lockstep_sees_steps(${file} steps)
        if(steps AND layer MATCHES "^(sm|sim|tpcc)$" AND NOT LOCKSTEP_SANITIZE AND NOT labels
            MATCHES "perf")
            add_test(NAME steps.${layer}.${name} COMMAND ${target})
            set_tests_properties(steps.${layer}.${name} PROPERTIES ENVIRONMENT
                "LOCKSTEP_STEPS=on;${in_memory}" LABELS steps TIMEOUT ${seconds})
        endif()
        set(environment "")
        if(in_memory AND (LOCKSTEP_SANITIZE OR labels MATCHES "memory"))
            set(environment ENVIRONMENT ${in_memory})
        endif()
        gtest_discover_tests(${target} TEST_PREFIX ${layer}. PROPERTIES LABELS "${labels}" TIMEOUT
            ${seconds} ${environment} DISCOVERY_TIMEOUT 60)
    endforeach()
endforeach()
if(EXISTS ${CMAKE_SOURCE_DIR}/tests/tests.cmake)
    # Tests that are scripts: layers, install, driver, kill -9.
    include(${CMAKE_SOURCE_DIR}/tests/tests.cmake)
endif()
