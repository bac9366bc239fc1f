# Tests. The sources <name>_test.cc of a folder below tests/<layer> make one program, for example
# sm_btree_tests of tests/sm/btree, linked with the layer and those below. A link to it,
# sm_<name>_test, runs the tests of one source (tests/main.cc), and so does the target of that name
# build it. A source that replaces operator new is a program of its own. The first line
# "// labels: unit model" of a file gives its ctest labels; default "unit".
find_package(GTest REQUIRED)
include(GoogleTest)

set(LOCKSTEP_TEST_LIBS_threads lockstep_threads)
set(LOCKSTEP_TEST_LIBS_txn lockstep_txn lockstep_threads)
set(LOCKSTEP_TEST_LIBS_sm lockstep_sm lockstep_txn lockstep_threads)
set(LOCKSTEP_TEST_LIBS_sim lockstep_sm lockstep_txn lockstep_threads)
set(LOCKSTEP_TEST_LIBS_isolation lockstep_sm lockstep_txn lockstep_threads)
set(LOCKSTEP_TEST_LIBS_tpcc lockstep_tpcc lockstep_sm lockstep_txn lockstep_threads)
set(LOCKSTEP_TEST_LIBS_tools lockstep_xa lockstep_icache lockstep_coherence_model lockstep_tpcc
    lockstep_sm lockstep_txn lockstep_threads)
set(LOCKSTEP_TEST_LAYERS threads txn sm sim isolation fuzz)
if(TARGET lockstep_tpcc)
    list(APPEND LOCKSTEP_TEST_LAYERS tpcc)
endif()
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
# A test computes little itself, and to optimise its many checks was half of its build. A test with
# the label `model` or `perf` computes much: it is optimised.
set(optimised -O0)
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
# lockstep_test_source(FILE LAYER): adds the source to the program of its folder and sets `program`,
# `labels` and `suites`, those of its tests.
function(lockstep_test_source file layer)
    get_filename_component(name ${file} NAME_WE)
    get_filename_component(folder ${file} DIRECTORY)
    file(RELATIVE_PATH folder ${CMAKE_SOURCE_DIR}/tests ${folder})
    string(REPLACE "/" "_" program ${folder}_tests)
    file(STRINGS ${file} lines REGEX "^// labels: |^TEST|^INSTANTIATE|replaced_new.h|operator new")
    set(labels unit)
    set(suites)
    foreach(line ${lines})
        if(line MATCHES "^// labels: (.*)$")
            # One word: ctest's -L takes a pattern, and discovery no lists.
            string(REPLACE " " "." labels "${CMAKE_MATCH_1}")
        elseif(line MATCHES "replaced_new.h|operator new")
            set(program ${layer}_${name})
        elseif(line MATCHES "^TEST(_F|_P)?\\(([^,]+),")
            list(APPEND suites "${CMAKE_MATCH_2}.*")
        elseif(line MATCHES "^INSTANTIATE_TEST_SUITE_P\\(([^,]+), *([^,]+),")
            list(APPEND suites "${CMAKE_MATCH_1}/${CMAKE_MATCH_2}.*")
        endif()
    endforeach()
    list(REMOVE_DUPLICATES suites)
    string(REPLACE ";" ":" suites "${suites}")
    foreach(variable name program labels suites)
        set(${variable} "${${variable}}" PARENT_SCOPE)
    endforeach()
endfunction()

# lockstep_test_program(PROGRAM LAYER): the program, if it is not there yet.
function(lockstep_test_program program layer)
    if(TARGET ${program})
        return()
    endif()
    add_executable(${program} ${CMAKE_SOURCE_DIR}/tests/main.cc)
    target_include_directories(${program} PRIVATE ${CMAKE_SOURCE_DIR})
    target_compile_definitions(${program} PRIVATE LOCKSTEP_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
    target_link_libraries(${program} PRIVATE lockstep_flags ${LOCKSTEP_TEST_LIBS_${layer}}
        GTest::gtest)
    lockstep_unite(${program})
    target_compile_options(${program} PRIVATE ${optimised})
    if(LOCKSTEP_PCH)
        target_compile_options(${program} PRIVATE ${LOCKSTEP_PCH_OPTIONS})
        target_precompile_headers(${program} REUSE_FROM lockstep_test_headers)
    endif()
endfunction()

# Computes much, and is optimised whatever the others are.
function(lockstep_optimised_test file options)
    set_source_files_properties(${file} PROPERTIES SKIP_PRECOMPILE_HEADERS ON COMPILE_OPTIONS
        "${options}")
endfunction()

# lockstep_discover(PROGRAM LAYER): its tests, each a process; one call for all that share labels.
# Unit tests run twice in their process: the second time, what the first has left behind is there.
function(lockstep_discover program layer)
    get_target_property(groups ${program} LOCKSTEP_LABELS)
    list(REMOVE_DUPLICATES groups)
    foreach(labels ${groups})
        get_target_property(suites ${program} LOCKSTEP_SUITES_${labels})
        string(REPLACE ";" ":" suites "${suites}")
        set(environment "")
        # One variable at most: gtest_discover_tests() passes no more on.
        if(in_memory AND (LOCKSTEP_SANITIZE OR labels MATCHES "memory"))
            set(environment ENVIRONMENT ${in_memory})
        elseif(labels MATCHES "unit")
            set(environment ENVIRONMENT GTEST_REPEAT=2)
        endif()
        gtest_discover_tests(${program} TEST_PREFIX ${layer}. TEST_FILTER "${suites}" PROPERTIES
            LABELS "${labels}" TIMEOUT ${seconds} ${environment} DISCOVERY_TIMEOUT 60)
    endforeach()
endfunction()

foreach(layer ${LOCKSTEP_TEST_LAYERS})
    set(programs)
    file(GLOB_RECURSE files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/${layer}/*_test.cc)
    foreach(file ${files})
        lockstep_test_source(${file} ${layer})
        if(LOCKSTEP_SANITIZE STREQUAL thread AND NOT labels MATCHES "tsan")
            continue()
        endif()
        lockstep_test_program(${program} ${layer})
        target_sources(${program} PRIVATE ${file})
        list(APPEND programs ${program})
        set_property(TARGET ${program} APPEND PROPERTY LOCKSTEP_LABELS ${labels})
        set_property(TARGET ${program} APPEND PROPERTY LOCKSTEP_SUITES_${labels} ${suites})
        if(labels MATCHES "perf")
            lockstep_optimised_test(${file} -O2)
        elseif(labels MATCHES "model")
            lockstep_optimised_test(${file} -O1)
        endif()
        set(one ${layer}_${name})
        if(NOT one STREQUAL program)
            add_custom_target(${one} DEPENDS ${program})
            add_custom_command(TARGET ${program} POST_BUILD COMMAND ${CMAKE_COMMAND} -E
                create_symlink ${program} ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/${one})
        endif()
        set(environment "")
        if(in_memory AND (LOCKSTEP_SANITIZE OR labels MATCHES "memory"))
            set(environment ENVIRONMENT ${in_memory})
        endif()
        # Under a sanitizer a process takes long to begin: all tests of a source share one.
        if(LOCKSTEP_SANITIZE)
            add_test(NAME ${layer}.${name} COMMAND ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/${one})
            set_tests_properties(${layer}.${name} PROPERTIES LABELS "${labels}" TIMEOUT 600
                ${environment})
        endif()
        # What runs transactions does so a second time in teams; the sanitizers see that in
        # steps_test and sim.
        lockstep_sees_steps(${file} steps)
        if(steps AND layer MATCHES "^(sm|sim|tpcc)$" AND NOT LOCKSTEP_SANITIZE AND NOT labels
            MATCHES "perf")
            add_test(NAME steps.${layer}.${name} COMMAND
                ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/${one})
            set_tests_properties(steps.${layer}.${name} PROPERTIES ENVIRONMENT
                "LOCKSTEP_STEPS=on;${in_memory}" LABELS steps TIMEOUT ${seconds})
        endif()
    endforeach()
    list(REMOVE_DUPLICATES programs)
    if(NOT layer STREQUAL "tools")
        list(APPEND LOCKSTEP_ENGINE_TESTS ${programs})
    endif()
    if(LOCKSTEP_SANITIZE)
        list(APPEND LOCKSTEP_TEST_PROGRAMS ${programs})
        continue()
    endif()
    foreach(program ${programs})
        lockstep_discover(${program} ${layer})
    endforeach()
    list(APPEND LOCKSTEP_TEST_PROGRAMS ${programs})
endforeach()
if(EXISTS ${CMAKE_SOURCE_DIR}/tests/tests.cmake)
    # Tests that are scripts: layers, install, driver, kill -9.
    include(${CMAKE_SOURCE_DIR}/tests/tests.cmake)
endif()
