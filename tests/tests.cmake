# Tests that are scripts, and the groups that the run script builds.
find_package(Python3 REQUIRED COMPONENTS Interpreter)

add_test(NAME layers COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/tools/check_layers.py)
# What the surface of the code promises: width, lengths, comments, names in documents.
foreach(check style public_comments prose documents assertions)
    add_test(NAME ${check} COMMAND Python3::Interpreter
        ${CMAKE_SOURCE_DIR}/tools/checks/${check}.py)
    set_tests_properties(${check} PROPERTIES LABELS script TIMEOUT 120)
endforeach()
# clang-tidy-16 over the sources that the last commits changed.
add_test(NAME tidy COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/tools/checks/tidy.py)
set_tests_properties(tidy PROPERTIES LABELS script TIMEOUT 300 PROCESSORS 2)
add_test(NAME checks COMMAND Python3::Interpreter
    ${CMAKE_SOURCE_DIR}/tests/checks/checks_test.py)
add_test(NAME planted COMMAND Python3::Interpreter
    ${CMAKE_SOURCE_DIR}/tests/tools/planted_test.py)
# The picture in ARCHITECTURE.md is what its text source makes.
add_test(NAME picture COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/tools/picture/draw.py
    --check)
set_tests_properties(layers checks planted picture PROPERTIES LABELS script TIMEOUT 120)
if(TARGET lockstep_shared AND NOT LOCKSTEP_SANITIZE)
    add_test(NAME install COMMAND ${CMAKE_SOURCE_DIR}/tests/install/install_test.sh
        ${CMAKE_BINARY_DIR} ${CMAKE_SOURCE_DIR})
    set_tests_properties(install PROPERTIES LABELS script TIMEOUT 600)
endif()

if(TARGET lockstep-tpcc AND NOT LOCKSTEP_SANITIZE)
    add_test(NAME kill COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/tests/tpcc/kill_test.py
        $<TARGET_FILE:lockstep-tpcc>)
    add_test(NAME driver COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/tests/tpcc/driver_test.py
        $<TARGET_FILE:lockstep-tpcc>)
    add_test(NAME soak COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/tests/tpcc/soak_test.py
        $<TARGET_FILE:lockstep-tpcc>)
    set_tests_properties(kill driver soak PROPERTIES LABELS script TIMEOUT 300)
    if(TARGET lockstep)
        add_test(NAME cli COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/tests/tools/cli_test.py
            $<TARGET_FILE:lockstep> $<TARGET_FILE:lockstep-tpcc>)
        set_tests_properties(cli PROPERTIES LABELS script TIMEOUT 300)
    endif()
endif()

# It runs the program beside it.
if(TARGET lockstep AND TARGET tools_stat_test)
    add_dependencies(tools_stat_test lockstep)
endif()

# The debugger script against a program that stops in a deadlock.
find_program(GDB gdb)
if(GDB AND TARGET sm_store_test AND NOT LOCKSTEP_SANITIZE AND NOT LOCKSTEP_COVERAGE)
    add_test(NAME gdb COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/tests/tools/gdb_test.py
        ${CMAKE_SOURCE_DIR} $<TARGET_FILE:sm_store_test>)
    set_tests_properties(gdb PROPERTIES LABELS script TIMEOUT 300 SKIP_RETURN_CODE 77)
endif()

if(TARGET lockstep-tracer AND NOT LOCKSTEP_SANITIZE AND NOT LOCKSTEP_DEBUG_CHECKS)
    add_test(NAME icache COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/tests/tools/icache_test.py
        $<TARGET_FILE:lockstep-icache>)
    add_test(NAME autosteps COMMAND Python3::Interpreter
        ${CMAKE_SOURCE_DIR}/tests/tools/autosteps_test.py ${CMAKE_SOURCE_DIR}
        $<TARGET_FILE:lockstep-icache>)
    set_tests_properties(icache autosteps PROPERTIES LABELS script TIMEOUT 300)
endif()

# The debugger's script, on a program linked with each form of the library.
if(TARGET lockstep_shared AND NOT LOCKSTEP_SANITIZE AND NOT LOCKSTEP_COVERAGE)
    foreach(kind static shared)
        add_executable(gdb-program-${kind} ${CMAKE_SOURCE_DIR}/tests/tools/gdb_program.cc)
        target_link_libraries(gdb-program-${kind} PRIVATE lockstep_flags lockstep_${kind})
        list(APPEND LOCKSTEP_TEST_PROGRAMS gdb-program-${kind})
    endforeach()
    add_test(NAME gdb_libraries COMMAND Python3::Interpreter
        ${CMAKE_SOURCE_DIR}/tests/tools/gdb_libraries_test.py
        ${CMAKE_SOURCE_DIR}/tools/gdb/lockstep_gdb.py $<TARGET_FILE:gdb-program-static>
        $<TARGET_FILE:gdb-program-shared>)
    set_tests_properties(gdb_libraries PROPERTIES LABELS script TIMEOUT 300 SKIP_RETURN_CODE 77)
endif()

# A store under valgrind, where io_uring hangs.
if(TARGET lockstep_static AND NOT LOCKSTEP_SANITIZE AND NOT LOCKSTEP_COVERAGE)
    add_executable(valgrind-program ${CMAKE_SOURCE_DIR}/tests/tools/valgrind_program.cc)
    target_link_libraries(valgrind-program PRIVATE lockstep_flags lockstep_static)
    list(APPEND LOCKSTEP_TEST_PROGRAMS valgrind-program)
    add_test(NAME valgrind COMMAND Python3::Interpreter
        ${CMAKE_SOURCE_DIR}/tests/tools/valgrind_test.py $<TARGET_FILE:valgrind-program>)
    set_tests_properties(valgrind PROPERTIES LABELS script TIMEOUT 300 SKIP_RETURN_CODE 77)
endif()

# The simulator: one program of all files in tests/sim that are no tests.
if(TARGET lockstep_tpcc)
    file(GLOB simulator CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/sim/*.cc)
    list(FILTER simulator EXCLUDE REGEX "_test\\.cc$")
    add_executable(lockstep-sim ${simulator})
    target_include_directories(lockstep-sim PRIVATE ${CMAKE_SOURCE_DIR})
    target_link_libraries(lockstep-sim PRIVATE lockstep_flags lockstep_tpcc lockstep_sm lockstep_txn
        lockstep_threads CLI11::CLI11)
    list(APPEND LOCKSTEP_TEST_PROGRAMS lockstep-sim)
    if(LOCKSTEP_SANITIZE STREQUAL "" AND NOT LOCKSTEP_COVERAGE)
        add_test(NAME simulation COMMAND Python3::Interpreter
            ${CMAKE_SOURCE_DIR}/tests/sim/simulation_test.py $<TARGET_FILE:lockstep-sim>
                 --seeds 130 --crash-points 5000 --injections 200)
        set_tests_properties(simulation PROPERTIES LABELS sim TIMEOUT 480 PROCESSORS 2)
    elseif(NOT LOCKSTEP_SANITIZE STREQUAL thread)
        add_test(NAME simulation COMMAND Python3::Interpreter
            ${CMAKE_SOURCE_DIR}/tests/sim/simulation_test.py $<TARGET_FILE:lockstep-sim>
                 --seeds 6 --crash-points 100)
        set_tests_properties(simulation PROPERTIES LABELS sim TIMEOUT 480 PROCESSORS 2 ENVIRONMENT
            "ASAN_OPTIONS=detect_leaks=0")
    endif()
endif()
target_compile_definitions(fuzz_corpus_test PRIVATE
    FUZZ_CORPUS="${CMAKE_SOURCE_DIR}/tests/fuzz/corpus")

# A file system of its own, served by a child process.
if(TARGET sm_fuse_test)
    target_sources(sm_fuse_test PRIVATE ${CMAKE_SOURCE_DIR}/tests/fuse_passthrough.cc)
endif()

# What the run script builds under sanitizers: all test programs, and those whose first line carries
# the label tsan.
add_custom_target(all-tests DEPENDS ${LOCKSTEP_TEST_PROGRAMS})
add_custom_target(thread-sanitizer-tests DEPENDS ${LOCKSTEP_TSAN_PROGRAMS})
