# Tests that are scripts, and the groups that the run script builds.
find_package(Python3 REQUIRED COMPONENTS Interpreter)

set(tests ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})  # where the programs of the tests are

# lockstep_add_sources(PROGRAM source...): sources of another folder for the tests of PROGRAM.
function(lockstep_add_sources program)
    foreach(source ${ARGN})
        get_filename_component(source ${source} ABSOLUTE BASE_DIR ${CMAKE_SOURCE_DIR})
        target_sources(${program} PRIVATE ${source})
        set_source_files_properties(${source} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    endforeach()
endfunction()

# lockstep_skipped_tests(REASON NAME...): in place of tests that cannot be built or run here. So a
# run lists them among the skipped ones.
function(lockstep_skipped_tests reason)
    foreach(name ${ARGN})
        add_test(NAME ${name} COMMAND ${CMAKE_COMMAND} -E echo "skipped: ${reason}")
        set_tests_properties(${name} PROPERTIES LABELS script SKIP_REGULAR_EXPRESSION "^skipped: ")
    endforeach()
endfunction()

add_test(NAME layers COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/tools/check_layers.py)
# What the surface of the code promises: width, lengths, comments, names in documents, invariants.
foreach(check style public_comments public_calls prose documents assertions invariants
        mutants)
    add_test(NAME ${check} COMMAND Python3::Interpreter
        ${CMAKE_SOURCE_DIR}/tools/checks/${check}.py)
    set_tests_properties(${check} PROPERTIES LABELS script TIMEOUT 120)
endforeach()
# clang-tidy-16 over the sources that the last commits changed.
add_test(NAME tidy COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/tools/checks/tidy.py)
set_tests_properties(tidy PROPERTIES LABELS script TIMEOUT 300 PROCESSORS 2)
add_test(NAME checks COMMAND Python3::Interpreter
    ${CMAKE_SOURCE_DIR}/tests/checks/checks_test.py)
add_test(NAME tidy_choice COMMAND Python3::Interpreter
    ${CMAKE_SOURCE_DIR}/tests/checks/tidy_test.py)
foreach(part mutate patches)
    add_test(NAME ${part} COMMAND Python3::Interpreter
        ${CMAKE_SOURCE_DIR}/tests/tools/${part}_test.py)
endforeach()
# The runner of all these tests.
add_test(NAME tests COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/tests/tools/tests_test.py)
add_test(NAME compare COMMAND Python3::Interpreter
    ${CMAKE_SOURCE_DIR}/tests/tools/compare_test.py)
add_test(NAME coherence COMMAND Python3::Interpreter
    ${CMAKE_SOURCE_DIR}/tests/tools/coherence_test.py)
add_test(NAME evidence COMMAND Python3::Interpreter
    ${CMAKE_SOURCE_DIR}/tests/tools/evidence_test.py ${CMAKE_SOURCE_DIR})
# The picture in ARCHITECTURE.md is what its text source makes.
add_test(NAME picture COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/tools/picture/draw.py
    --check)
set_tests_properties(layers checks tests tidy_choice mutate patches compare coherence evidence
    picture PROPERTIES LABELS script TIMEOUT 120)
set_tests_properties(checks tidy_choice PROPERTIES SKIP_RETURN_CODE 77)
if(TARGET lockstep_shared AND NOT LOCKSTEP_SANITIZE)
    add_test(NAME install COMMAND ${CMAKE_SOURCE_DIR}/tests/install/install_test.sh
        ${CMAKE_BINARY_DIR} ${CMAKE_SOURCE_DIR})
    set_tests_properties(install PROPERTIES LABELS script TIMEOUT 600)
endif()
include(${CMAKE_SOURCE_DIR}/tests/install/packages.cmake)

# Also with sanitizers: a mutant made by hand names the script that needs it.
if(TARGET lockstep)
    add_executable(prepared-program ${CMAKE_SOURCE_DIR}/tests/tools/prepared_program.cc)
    target_link_libraries(prepared-program PRIVATE lockstep_flags lockstep_static)
    list(APPEND LOCKSTEP_TEST_PROGRAMS prepared-program)
endif()

if(TARGET lockstep-tpcc AND NOT LOCKSTEP_SANITIZE)
    add_test(NAME kill COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/tests/tpcc/kill_test.py
        $<TARGET_FILE:lockstep-tpcc>)
    foreach(part runs limits)
        add_test(NAME driver_${part} COMMAND Python3::Interpreter
            ${CMAKE_SOURCE_DIR}/tests/tpcc/driver_test.py $<TARGET_FILE:lockstep-tpcc> ${part})
    endforeach()
    add_test(NAME soak COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/tests/tpcc/soak_test.py
        $<TARGET_FILE:lockstep-tpcc>)
    add_test(NAME ch COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/tests/tpcc/ch_test.py
        $<TARGET_FILE:lockstep-ch>)
    set_tests_properties(kill driver_runs driver_limits soak ch PROPERTIES LABELS script
        TIMEOUT 300)
    # The page of a run, in a headless Chromium.
    add_test(NAME tpcc_page COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/tests/tpcc/page_test.py
        $<TARGET_FILE:lockstep-tpcc>)
    set_tests_properties(tpcc_page PROPERTIES LABELS script TIMEOUT 480 SKIP_RETURN_CODE 77)
    if(TARGET sm_api_tests)
        # The interpreter that Debian's packages are installed for.
        find_program(DEBIAN_PYTHON python3 HINTS /usr/bin NO_DEFAULT_PATH REQUIRED)
        add_test(NAME metrics COMMAND ${DEBIAN_PYTHON}
            ${CMAKE_SOURCE_DIR}/tests/tools/metrics_test.py ${tests}/sm_metrics_test
            $<TARGET_FILE:lockstep-tpcc>)
        set_tests_properties(metrics PROPERTIES LABELS script TIMEOUT 300)
    endif()
    if(TARGET lockstep)
        add_executable(control-program ${CMAKE_SOURCE_DIR}/tests/tools/control_program.cc)
        target_link_libraries(control-program PRIVATE lockstep_flags lockstep_static)
        list(APPEND LOCKSTEP_TEST_PROGRAMS control-program)
        add_test(NAME control COMMAND Python3::Interpreter
            ${CMAKE_SOURCE_DIR}/tests/tools/control_test.py $<TARGET_FILE:lockstep>
            $<TARGET_FILE:lockstep-tpcc> $<TARGET_FILE:control-program>)
        set_tests_properties(control PROPERTIES LABELS script TIMEOUT 300)
        add_test(NAME cli_tail COMMAND Python3::Interpreter
            ${CMAKE_SOURCE_DIR}/tests/tools/tail_test.py $<TARGET_FILE:lockstep>
            $<TARGET_FILE:lockstep-tpcc>)
        set_tests_properties(cli_tail PROPERTIES LABELS script TIMEOUT 300)
        add_test(NAME cli_prepared COMMAND Python3::Interpreter
            ${CMAKE_SOURCE_DIR}/tests/tools/prepared_test.py $<TARGET_FILE:lockstep>
            $<TARGET_FILE:prepared-program>)
        set_tests_properties(cli_prepared PROPERTIES LABELS script TIMEOUT 300)
        add_test(NAME cli COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/tests/tools/cli_test.py
            $<TARGET_FILE:lockstep> $<TARGET_FILE:lockstep-tpcc>)
        set_tests_properties(cli PROPERTIES LABELS script TIMEOUT 300)
    endif()
endif()

# Help and errors of every program with options.
if(NOT LOCKSTEP_SANITIZE)
    set(programs "")
    foreach(program lockstep lockstep-tpcc lockstep-ch lockstep-bench lockstep-icache lockstep-acked
            lockstep-faultfs lockstep-peers lockstep-sim kv_server)
        if(TARGET ${program})
            list(APPEND programs $<TARGET_FILE:${program}>)
        endif()
    endforeach()
    add_test(NAME control_bytes COMMAND Python3::Interpreter
        ${CMAKE_SOURCE_DIR}/tests/tools/control_bytes_test.py ${programs})
    set_tests_properties(control_bytes PROPERTIES LABELS script TIMEOUT 300)
endif()

# One of them, with the label `script`, runs the program beside them.
if(TARGET lockstep AND TARGET tools_tests AND NOT LOCKSTEP_SANITIZE)
    add_dependencies(tools_tests lockstep)
endif()

# The sub-commands of lockstep that copy, save and rewrite stores.
if(TARGET lockstep AND NOT LOCKSTEP_SANITIZE)
    foreach(name load plain salvage compact backup)
        add_test(NAME cli_${name} COMMAND Python3::Interpreter
            ${CMAKE_SOURCE_DIR}/tests/tools/${name}_test.py $<TARGET_FILE:lockstep>)
        set_tests_properties(cli_${name} PROPERTIES LABELS script TIMEOUT 300)
    endforeach()
    add_executable(secondaries-program ${CMAKE_SOURCE_DIR}/tests/tools/secondaries_program.cc)
    target_link_libraries(secondaries-program PRIVATE lockstep_flags lockstep_static)
    list(APPEND LOCKSTEP_TEST_PROGRAMS secondaries-program)
    add_test(NAME cli_secondaries COMMAND Python3::Interpreter
        ${CMAKE_SOURCE_DIR}/tests/tools/secondaries_test.py $<TARGET_FILE:lockstep>
        $<TARGET_FILE:secondaries-program>)
    set_tests_properties(cli_secondaries PROPERTIES LABELS script TIMEOUT 300)
endif()

# The debugger script against a program that stops in a deadlock.
find_program(GDB gdb)
if(GDB AND TARGET sm_api_tests AND NOT LOCKSTEP_SANITIZE AND NOT LOCKSTEP_COVERAGE)
    add_test(NAME gdb COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/tests/tools/gdb_test.py
        ${CMAKE_SOURCE_DIR} ${tests}/sm_store_test)
    set_tests_properties(gdb PROPERTIES LABELS script TIMEOUT 480 SKIP_RETURN_CODE 77)
elseif(NOT GDB)
    lockstep_skipped_tests("gdb is not installed" gdb)
endif()

# What perf-compare reads from linux-perf.
if(TARGET lockstep-tpcc AND NOT LOCKSTEP_SANITIZE)
    add_test(NAME perf_compare COMMAND Python3::Interpreter
        ${CMAKE_SOURCE_DIR}/tests/tools/perf_test.py ${CMAKE_SOURCE_DIR})
    set_tests_properties(perf_compare PROPERTIES LABELS script TIMEOUT 60)
endif()

if(TARGET lockstep-bench AND NOT LOCKSTEP_SANITIZE)
    add_test(NAME bench COMMAND Python3::Interpreter
        ${CMAKE_SOURCE_DIR}/tests/tools/bench_test.py $<TARGET_FILE:lockstep-bench>)
    set_tests_properties(bench PROPERTIES LABELS script TIMEOUT 120)
endif()

if(TARGET lockstep-tracer AND NOT LOCKSTEP_SANITIZE AND NOT LOCKSTEP_DEBUG_CHECKS)
    add_test(NAME icache COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/tests/tools/icache_test.py
        $<TARGET_FILE:lockstep-icache>)
    foreach(part operations transactions)
        add_test(NAME autosteps_${part} COMMAND Python3::Interpreter
            ${CMAKE_SOURCE_DIR}/tests/tools/autosteps_test.py ${CMAKE_SOURCE_DIR}
            $<TARGET_FILE:lockstep-icache> ${part})
    endforeach()
    add_test(NAME icache_page COMMAND Python3::Interpreter
        ${CMAKE_SOURCE_DIR}/tests/tools/icache_page_test.py $<TARGET_FILE:lockstep-icache>)
    set_tests_properties(icache autosteps_operations autosteps_transactions PROPERTIES
        LABELS script TIMEOUT 300)
    set_tests_properties(icache_page PROPERTIES LABELS script TIMEOUT 1200 SKIP_RETURN_CODE 77)
elseif(NOT TARGET lockstep-tracer)
    lockstep_skipped_tests("valgrind's tool headers or archives are missing, or tools are not built"
        icache autosteps_operations autosteps_transactions icache_page)
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
    set_tests_properties(gdb_libraries PROPERTIES LABELS script TIMEOUT 480 SKIP_RETURN_CODE 77)
endif()

# A program with a sanitizer, on the library as it is installed.
if(TARGET lockstep_shared AND NOT LOCKSTEP_SANITIZE AND NOT LOCKSTEP_COVERAGE)
    add_test(NAME sanitized_program COMMAND Python3::Interpreter
        ${CMAKE_SOURCE_DIR}/tests/tools/sanitized_program_test.py ${CMAKE_SOURCE_DIR}
        $<TARGET_FILE:lockstep_shared>)
    set_tests_properties(sanitized_program PROPERTIES LABELS script TIMEOUT 300
        SKIP_RETURN_CODE 77)
endif()

# The example server behind Redis's own clients.
if(TARGET kv_server AND NOT LOCKSTEP_SANITIZE AND NOT LOCKSTEP_COVERAGE)
    add_test(NAME kv_server COMMAND Python3::Interpreter
        ${CMAKE_SOURCE_DIR}/tests/tools/kv_server_test.py $<TARGET_FILE:kv_server>)
    add_test(NAME kv_redis_py COMMAND Python3::Interpreter
        ${CMAKE_SOURCE_DIR}/tests/tools/kv_redis_py_test.py $<TARGET_FILE:kv_server>)
    set_tests_properties(kv_server kv_redis_py PROPERTIES
        LABELS script TIMEOUT 480 SKIP_RETURN_CODE 77)
endif()

# The same workloads on the other engines that are installed.
if(TARGET lockstep-peers AND LOCKSTEP_PEERS_FOUND AND NOT LOCKSTEP_SANITIZE
    AND NOT LOCKSTEP_COVERAGE)
    set_target_properties(lockstep-peers PROPERTIES EXCLUDE_FROM_ALL OFF)
    add_test(NAME peers COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/tests/tools/peers_test.py
        $<TARGET_FILE:lockstep-peers>)
    set_tests_properties(peers PROPERTIES LABELS script TIMEOUT 300)
elseif(NOT LOCKSTEP_PEERS_FOUND)
    lockstep_skipped_tests("no other engine is installed, or tools are not built" peers)
endif()

# A store under valgrind, where io_uring hangs.
if(TARGET lockstep_static AND NOT LOCKSTEP_SANITIZE AND NOT LOCKSTEP_COVERAGE)
    add_executable(valgrind-program ${CMAKE_SOURCE_DIR}/tests/tools/valgrind_program.cc)
    target_link_libraries(valgrind-program PRIVATE lockstep_flags lockstep_static)
    list(APPEND LOCKSTEP_TEST_PROGRAMS valgrind-program)
    add_test(NAME valgrind COMMAND Python3::Interpreter
        ${CMAKE_SOURCE_DIR}/tests/tools/valgrind_test.py $<TARGET_FILE:valgrind-program>)
    set_tests_properties(valgrind PROPERTIES LABELS script TIMEOUT 480 SKIP_RETURN_CODE 77)
endif()

# The example servers as a client sees them.
if(TARGET lockstep_static AND NOT LOCKSTEP_SANITIZE AND NOT LOCKSTEP_COVERAGE)
    foreach(program epoll_server asio_server thread_server server_load tutorial reports
            patterns object_storage)
        add_executable(example-${program} ${CMAKE_SOURCE_DIR}/tools/examples/${program}.cc)
        target_link_libraries(example-${program} PRIVATE lockstep_flags lockstep_static)
        set_target_properties(example-${program} PROPERTIES OUTPUT_NAME ${program}
            RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/examples)
        list(APPEND LOCKSTEP_TEST_PROGRAMS example-${program})
    endforeach()
    add_test(NAME servers COMMAND Python3::Interpreter
        ${CMAKE_SOURCE_DIR}/tests/tools/servers_test.py ${CMAKE_BINARY_DIR}/examples)
    set_tests_properties(servers PROPERTIES LABELS script TIMEOUT 300)
    if(TARGET lockstep-icache)
        add_test(NAME docs COMMAND Python3::Interpreter
            ${CMAKE_SOURCE_DIR}/tests/tools/docs_test.py ${CMAKE_BINARY_DIR})
        # Two browsers, each with a core.
        set_tests_properties(docs PROPERTIES LABELS script TIMEOUT 480 PROCESSORS 2
            SKIP_RETURN_CODE 77)
    endif()
endif()

# The Python package: its types, its tests and its wheel.
if(TARGET lockstep_shared AND NOT LOCKSTEP_SANITIZE AND NOT LOCKSTEP_COVERAGE)
    add_test(NAME python COMMAND Python3::Interpreter
        ${CMAKE_SOURCE_DIR}/tests/python/python_test.py ${CMAKE_BINARY_DIR})
    set_tests_properties(python PROPERTIES LABELS script TIMEOUT 900 SKIP_RETURN_CODE 77)
endif()

# A store and PostgreSQL in one global transaction: a small share of what ./tools/run postgres does.
if(TARGET lockstep_static AND NOT LOCKSTEP_SANITIZE AND NOT LOCKSTEP_COVERAGE)
    add_executable(participant-program ${CMAKE_SOURCE_DIR}/tests/tools/participant_program.cc)
    target_link_libraries(participant-program PRIVATE lockstep_flags lockstep_static)
    list(APPEND LOCKSTEP_TEST_PROGRAMS participant-program)
    add_test(NAME postgres COMMAND Python3::Interpreter
        ${CMAKE_SOURCE_DIR}/tests/tools/postgres_test.py $<TARGET_FILE:participant-program>)
    set_tests_properties(postgres PROPERTIES LABELS script TIMEOUT 480 SKIP_RETURN_CODE 77)
endif()

# Shards on Ray: the tests of ./tools/run cluster-test, and five kills.
if(TARGET lockstep_shared AND NOT LOCKSTEP_SANITIZE AND NOT LOCKSTEP_COVERAGE)
    add_test(NAME cluster COMMAND Python3::Interpreter
        ${CMAKE_SOURCE_DIR}/tests/cluster/cluster_test.py ${CMAKE_BINARY_DIR} --kills 5)
    set_tests_properties(cluster PROPERTIES LABELS "script;cluster" TIMEOUT 900 SKIP_RETURN_CODE 77)
endif()

# Stores on file systems that fail and on disks that lose power: a small share of what ./tools/run
# faultfs and ./tools/run powercut do.
if(TARGET lockstep-faultfs AND NOT LOCKSTEP_SANITIZE AND NOT LOCKSTEP_COVERAGE)
    add_test(NAME acked COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/tests/tools/acked_test.py
        $<TARGET_FILE:lockstep-acked>)
    add_test(NAME faultfs COMMAND lockstep-faultfs --injections 11)
    add_test(NAME powercut COMMAND Python3::Interpreter
        ${CMAKE_SOURCE_DIR}/tests/tools/powercut_test.py $<TARGET_FILE:lockstep-acked>)
    set_tests_properties(acked faultfs powercut PROPERTIES LABELS script TIMEOUT 300
        SKIP_RETURN_CODE 77)
endif()

# The simulator: one program of all files in tests/sim that are no tests.
if(TARGET lockstep_tpcc)
    file(GLOB simulator CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/sim/*.cc)
    list(FILTER simulator EXCLUDE REGEX "_test\\.cc$")
    add_executable(lockstep-sim ${simulator})
    lockstep_precompile(lockstep-sim)
    lockstep_unite(lockstep-sim)
    target_include_directories(lockstep-sim PRIVATE ${CMAKE_SOURCE_DIR})
    target_link_libraries(lockstep-sim PRIVATE lockstep_flags lockstep_tpcc lockstep_sm lockstep_txn
        lockstep_threads CLI11::CLI11)
    list(APPEND LOCKSTEP_TEST_PROGRAMS lockstep-sim)
    if(LOCKSTEP_SANITIZE STREQUAL "" AND NOT LOCKSTEP_COVERAGE)
        set(least_crashes --crash-points 5000 --injections 200)
        set(least_variants --crash-points 1000)
        set(least_once --crash-points 100)
        foreach(part log_faults data_faults full_disk)
            set(least_${part} --injections 200)
        endforeach()
        foreach(part crashes variants once log_faults data_faults full_disk)
            add_test(NAME simulation_${part} COMMAND Python3::Interpreter
                ${CMAKE_SOURCE_DIR}/tests/sim/simulation_test.py $<TARGET_FILE:lockstep-sim>
                    --part ${part} ${least_${part}})
            # Each uses two processors, and runs alone beside at most two other jobs.
            set_tests_properties(simulation_${part} PROPERTIES LABELS sim TIMEOUT 480 PROCESSORS 3)
        endforeach()
        add_test(NAME campaign COMMAND Python3::Interpreter
            ${CMAKE_SOURCE_DIR}/tests/sim/campaign_test.py $<TARGET_FILE:lockstep-sim>
            ${CMAKE_BINARY_DIR})
        set_tests_properties(campaign PROPERTIES LABELS sim TIMEOUT 300)
    elseif(NOT LOCKSTEP_SANITIZE STREQUAL thread)
        foreach(part crashes variants)
            add_test(NAME simulation_${part} COMMAND Python3::Interpreter
                ${CMAKE_SOURCE_DIR}/tests/sim/simulation_test.py $<TARGET_FILE:lockstep-sim>
                    --part ${part} --seeds 6 --crash-points 50)
            set_tests_properties(simulation_${part} PROPERTIES LABELS sim TIMEOUT 480 PROCESSORS 2
                ENVIRONMENT "ASAN_OPTIONS=detect_leaks=0")
        endforeach()
    endif()
endif()

# Sources outside the folder that its tests need: the screen of `lockstep top`, the figures of
# `lockstep size`, the server's parser, the workloads of lockstep-peers, the table of public calls,
# a file system of a child process.
if(TARGET tools_tests)
    file(GLOB peers ${CMAKE_SOURCE_DIR}/tools/peers/*.cc)
    list(FILTER peers INCLUDE REGEX
        "/(engine|lockstep|workload|tpcc_client|tpcc_workload|ycsb|tatp)\\.cc$")
    lockstep_add_sources(tools_tests ${peers} tools/cli/live/live_top.cc tools/cli/live/live_text.cc
        tools/cli/size/size.cc tools/examples/kv_server/resp.cc tools/examples/kv_server/scan.cc)
endif()
if(TARGET sm_api_tests)
    lockstep_add_sources(sm_api_tests tests/sm/api/public_calls_table.cc
        tests/sm/api/public_calls_waits.cc tools/faultfs/passthrough.cc)
endif()

# What the run script builds under sanitizers, and for another processor.
add_custom_target(all-tests DEPENDS ${LOCKSTEP_TEST_PROGRAMS})
add_custom_target(engine-tests DEPENDS ${LOCKSTEP_ENGINE_TESTS})

# A new build does not know yet how long a test takes. The longest begin first: at the end a core
# would wait for them.
foreach(test cluster install python peers icache_page packages driver soak)
    if(TEST ${test})
        set_tests_properties(${test} PROPERTIES COST 100)
    endif()
endforeach()
