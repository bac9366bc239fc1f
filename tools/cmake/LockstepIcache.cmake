# lockstep-icache, and the valgrind tool that records for it (lockstep-tracer, made of what Debian's
# valgrind package installs).
file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tools/icache/*.cc)
list(REMOVE_ITEM sources ${CMAKE_SOURCE_DIR}/tools/icache/main.cc)
# A library, so that tests reach the simulator.
add_library(lockstep_icache OBJECT ${sources} ${CMAKE_SOURCE_DIR}/tools/bench/quiet.cc)
target_include_directories(lockstep_icache PUBLIC ${CMAKE_SOURCE_DIR})
target_link_libraries(lockstep_icache PUBLIC lockstep_flags fmt::fmt nlohmann_json::nlohmann_json
    CLI11::CLI11)
lockstep_precompile(lockstep_icache)
lockstep_unite(lockstep_icache)
add_executable(lockstep-icache ${CMAKE_SOURCE_DIR}/tools/icache/main.cc)
target_link_libraries(lockstep-icache PRIVATE lockstep_icache lockstep_tpcc lockstep_static)

find_path(VALGRIND_TOOL_HEADERS pub_tool_tooliface.h PATH_SUFFIXES valgrind)
find_path(VALGRIND_TOOL_ARCHIVES libcoregrind-amd64-linux.a PATHS /usr/lib/x86_64-linux-gnu/valgrind
    /usr/lib/valgrind /usr/libexec/valgrind)
if(VALGRIND_TOOL_HEADERS AND VALGRIND_TOOL_ARCHIVES AND CMAKE_SYSTEM_PROCESSOR MATCHES
    "x86_64|AMD64")
    enable_language(C)
    add_executable(lockstep-tracer ${CMAKE_SOURCE_DIR}/tools/icache/tracer.c)
    set_target_properties(lockstep-tracer PROPERTIES POSITION_INDEPENDENT_CODE OFF C_STANDARD 11
        C_EXTENSIONS ON)
    target_include_directories(lockstep-tracer SYSTEM PRIVATE ${VALGRIND_TOOL_HEADERS})
    target_compile_definitions(lockstep-tracer PRIVATE VGA_amd64=1 VGO_linux=1 VGP_amd64_linux=1
        VGPV_amd64_linux_vanilla=1)
    target_compile_options(lockstep-tracer PRIVATE -O2 -Wall -Wextra -Werror -fno-pie
        -fno-stack-protector -fno-strict-aliasing -fno-builtin)
    # As valgrind links its own tools: static, no C library, out of the way of the program that runs
    # under it.
    target_link_options(lockstep-tracer PRIVATE -static -nodefaultlibs -nostartfiles -no-pie
        -Wl,-u,_start -Wl,--build-id=none
        -Wl,-Ttext-segment=0x58000000 -L${VALGRIND_TOOL_ARCHIVES})
    target_link_libraries(lockstep-tracer PRIVATE -Wl,--start-group coregrind-amd64-linux
        vex-amd64-linux gcc-sup-amd64-linux gcc -Wl,--end-group)
    add_dependencies(lockstep-icache lockstep-tracer)
else()
    message(STATUS
        "valgrind's tool headers or archives are missing: lockstep-icache has no tracer")
endif()
