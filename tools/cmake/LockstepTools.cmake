# The TPC-C driver and the command-line tools; binaries go to <build>/bin.
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
# Serves metrics over HTTP: the driver only, never the library.
pkg_check_modules(MICROHTTPD REQUIRED IMPORTED_TARGET libmicrohttpd)

if(TARGET lockstep_static)
    file(GLOB tpcc CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tpcc/*.cc)
    list(REMOVE_ITEM tpcc ${CMAKE_SOURCE_DIR}/tpcc/main.cc
        ${CMAKE_SOURCE_DIR}/tpcc/metrics_server.cc)
    if(tpcc)
        # The commit, for --version of each program and for every result.
        set(commit ${CMAKE_BINARY_DIR}/generated/commit.cc)
        add_custom_target(lockstep_commit COMMAND ${CMAKE_COMMAND} -DOUT=${commit}
            -DSOURCE=${CMAKE_SOURCE_DIR} -DVERSION=${PROJECT_VERSION}
            -P ${CMAKE_SOURCE_DIR}/tools/cmake/commit.cmake BYPRODUCTS ${commit})
        # What all programs share.
        file(GLOB base CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tools/base/*.cc)
        add_library(lockstep_tools_base STATIC ${base} ${commit})
        add_dependencies(lockstep_tools_base lockstep_commit)
        target_include_directories(lockstep_tools_base PUBLIC ${CMAKE_SOURCE_DIR})
        target_link_libraries(lockstep_tools_base PUBLIC lockstep_flags fmt::fmt
            nlohmann_json::nlohmann_json CLI11::CLI11)
        add_library(lockstep_tpcc OBJECT ${tpcc})
        target_link_libraries(lockstep_tpcc PUBLIC lockstep_tools_base)
        target_include_directories(lockstep_tpcc PUBLIC ${CMAKE_SOURCE_DIR})
        lockstep_precompile(lockstep_tpcc)
        if(LOCKSTEP_SANITIZE)
            lockstep_unite(lockstep_tpcc)  # elsewhere shards link its parts one by one
        endif()
        # Where the scripts lie (tpcc/scripts.cc).
        target_compile_definitions(lockstep_tpcc PRIVATE LOCKSTEP_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
        if(NOT EXISTS ${CMAKE_SOURCE_DIR}/tpcc/main.cc)
            return()
        endif()
        add_executable(lockstep-tpcc ${CMAKE_SOURCE_DIR}/tpcc/main.cc
            ${CMAKE_SOURCE_DIR}/tpcc/metrics_server.cc)
        target_link_libraries(lockstep-tpcc PRIVATE lockstep_tpcc lockstep_static
            PkgConfig::MICROHTTPD)
        # CH-benCHmark: reports beside the mix.
        file(GLOB ch CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tpcc/ch/*.cc)
        add_executable(lockstep-ch ${ch})
        target_link_libraries(lockstep-ch PRIVATE lockstep_tpcc lockstep_static)
        lockstep_unite(lockstep-ch)
        # TPC-C as a procedure object, for the shards of lockstep.cluster and for their clients. It
        # uses the shared library, as the Python package does.
        file(GLOB shard CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tpcc/shard/*.cc)
        # An archive, of which the linker takes what the object uses.
        add_library(lockstep_tpcc_parts STATIC EXCLUDE_FROM_ALL $<TARGET_OBJECTS:lockstep_tpcc>
            ${CMAKE_SOURCE_DIR}/threads/base/check.cc)
        target_link_libraries(lockstep_tpcc_parts PRIVATE lockstep_flags)
        target_include_directories(lockstep_tpcc_parts PRIVATE ${CMAKE_SOURCE_DIR})
        add_library(lockstep_tpcc_shard MODULE ${shard} ${CMAKE_SOURCE_DIR}/tpcc/ch/tables.cc)
        target_include_directories(lockstep_tpcc_shard PRIVATE ${CMAKE_SOURCE_DIR})
        set_target_properties(lockstep_tpcc_shard PROPERTIES OUTPUT_NAME lockstep-tpcc-shard
            LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
        target_link_libraries(lockstep_tpcc_shard PRIVATE lockstep_flags lockstep_tpcc_parts
            lockstep_shared fmt::fmt nlohmann_json::nlohmann_json)
        if(NOT LOCKSTEP_SANITIZE)
            target_link_options(lockstep_tpcc_shard PRIVATE LINKER:-z,defs)
        endif()
        target_link_options(lockstep_tpcc_shard PRIVATE
            LINKER:--version-script=${CMAKE_SOURCE_DIR}/tpcc/shard/exports.map)
        set_target_properties(lockstep_tpcc_shard PROPERTIES LINK_DEPENDS
            ${CMAKE_SOURCE_DIR}/tpcc/shard/exports.map)
        # Who loads it has loaded the library: no path to it.
        install(TARGETS lockstep_tpcc_shard LIBRARY
            DESTINATION ${CMAKE_INSTALL_LIBDIR}/lockstep COMPONENT dev)
    endif()
    # tools/<dir> with its folders: cli -> lockstep, bench -> lockstep-bench
    foreach(pair cli:lockstep bench:lockstep-bench)
        string(REPLACE ":" ";" pair ${pair})
        list(GET pair 0 dir)
        list(GET pair 1 program)
        file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tools/${dir}/*.cc)
        if(dir STREQUAL bench)
            list(APPEND sources ${CMAKE_SOURCE_DIR}/tpcc/ch/queries.cc)
        endif()
        if(sources)
            add_executable(${program} ${sources})
            target_include_directories(${program} PRIVATE ${CMAKE_SOURCE_DIR})
            lockstep_precompile(${program})
            target_link_libraries(${program} PRIVATE lockstep_flags lockstep_static fmt::fmt
                nlohmann_json::nlohmann_json
                CLI11::CLI11)
            if(LOCKSTEP_SANITIZE)
                # To optimise CLI11's headers with checks around all takes minutes.
                target_compile_options(${program} PRIVATE -O0)
            endif()
            lockstep_unite(${program})
            if(dir STREQUAL cli)
                target_link_libraries(${program} PRIVATE lockstep_tools_base PkgConfig::XXHASH
                    TBB::tbb)
            endif()
            if(dir STREQUAL bench)
                target_link_libraries(${program} PRIVATE lockstep_tpcc PkgConfig::URING
                    PkgConfig::XXHASH)
            endif()
        endif()
    endforeach()
    # The resource manager of X/Open XA: a library of its own, above the C interface.
    file(GLOB xa CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tools/xa/*.cc)
    add_library(lockstep_xa STATIC ${xa})
    set_target_properties(lockstep_xa PROPERTIES OUTPUT_NAME lockstep-xa)
    target_include_directories(lockstep_xa PRIVATE ${CMAKE_SOURCE_DIR})
    target_link_libraries(lockstep_xa PRIVATE $<BUILD_INTERFACE:lockstep_flags>
        INTERFACE $<INSTALL_INTERFACE:lockstep::lockstep_shared>)
    set_target_properties(lockstep_xa PROPERTIES EXPORT_NAME xa)
    install(TARGETS lockstep_xa EXPORT lockstep ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
        COMPONENT dev)
    install(FILES ${CMAKE_SOURCE_DIR}/tools/xa/lockstep_xa.h RENAME xa.h
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/lockstep/c COMPONENT dev)
    # The server of tools/examples, which is also a program of the tests; in the standard of the
    # public headers.
    file(GLOB kv_server CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tools/examples/kv_server/*.cc)
    add_executable(kv_server ${kv_server})
    set_target_properties(kv_server PROPERTIES CXX_STANDARD 20)
    target_link_libraries(kv_server PRIVATE lockstep_flags lockstep_static CLI11::CLI11)
    lockstep_unite(kv_server)
    include(LockstepIcache)
    include(LockstepPeers)
    include(LockstepRigs)
    include(LockstepCoherence)
endif()
