# Compiler flags. lockstep_flags: everything; lockstep_engine_flags: threads, txn and sm only (no
# exceptions, no RTTI, no unwind tables: an exception that an application or a failed `new` throws
# finds no way through the engine, whose latches would stay held, and ends the process).
add_library(lockstep_flags INTERFACE)
# Hashing is on hot paths: no calls.
target_compile_definitions(lockstep_flags INTERFACE XXH_INLINE_ALL)
# The public headers are spelled <lockstep/x.h> inside the project as outside.
target_include_directories(lockstep_flags INTERFACE
    ${PROJECT_SOURCE_DIR}/threads/include ${PROJECT_SOURCE_DIR}/txn/include
        ${PROJECT_SOURCE_DIR}/sm/include)
target_compile_options(lockstep_flags INTERFACE -Wall -Wextra -Werror -fno-omit-frame-pointer)
if(LOCKSTEP_ARCH)
    target_compile_options(lockstep_flags INTERFACE -march=${LOCKSTEP_ARCH})
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    # libstdc++ 12 hides std::expected unless this says what clang 16 in fact supports.
    target_compile_options(lockstep_flags INTERFACE
        $<$<COMPILE_LANGUAGE:CXX>:-Wno-builtin-macro-redefined -Wno-macro-redefined
            -D__cpp_concepts=202002L -Wno-gnu-statement-expression>)
endif()
# g++ collects its garbage when it has 128 MB, by default; a tenth of its time goes there.
cmake_host_system_information(RESULT memory QUERY TOTAL_PHYSICAL_MEMORY)
cmake_host_system_information(RESULT cores QUERY NUMBER_OF_LOGICAL_CORES)
math(EXPR memory "${memory} / (${cores} + 2)")
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND memory GREATER 1500)
    target_compile_options(lockstep_flags INTERFACE
        $<$<COMPILE_LANGUAGE:CXX>:--param=ggc-min-heapsize=500000>)
endif()
if(LOCKSTEP_DRAWN_LIMITS)
    target_compile_definitions(lockstep_flags INTERFACE LOCKSTEP_DRAWN_LIMITS)
endif()
if(LOCKSTEP_DEBUG_CHECKS)
    target_compile_definitions(lockstep_flags INTERFACE LOCKSTEP_DEBUG_CHECKS)
endif()
if(LOCKSTEP_DEBUG_CHECKS OR LOCKSTEP_SANITIZE)
    # The standard library checks the indices of spans. Most spans lie within pages, where no
    # sanitizer sees a wrong index.
    target_compile_definitions(lockstep_flags INTERFACE _GLIBCXX_ASSERTIONS)
endif()
if(LOCKSTEP_SANITIZE)
    target_compile_options(lockstep_flags INTERFACE -fsanitize=${LOCKSTEP_SANITIZE}
        -fno-sanitize-recover=all)
    if(LOCKSTEP_SANITIZE MATCHES "undefined")
        # A quarter of the compiler's work, for what the address sanitizer and the processor stop
        # as well: an access through a null pointer, or beyond the object.
        target_compile_options(lockstep_flags INTERFACE -fno-sanitize=null,vptr,object-size)
    endif()
    target_link_options(lockstep_flags INTERFACE -fsanitize=${LOCKSTEP_SANITIZE})
endif()
if(LOCKSTEP_COHERENCE)
    # Calls at each access, without the sanitizer: tools/coherence has what they call.
    target_compile_definitions(lockstep_flags INTERFACE LOCKSTEP_COHERENCE)
    target_compile_options(lockstep_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=thread
        -U__SANITIZE_THREAD__ -Wno-tsan --param=tsan-instrument-func-entry-exit=0
        -fno-builtin-memcpy -fno-builtin-memset -fno-builtin-memmove -fno-builtin-memcmp>)
endif()
if(LOCKSTEP_COVERAGE)
    # Unoptimised, as gcov's manual wants it: an optimiser copies and moves jumps, and lines without
    # any condition seem to branch. Nor is what must be inlined in other builds: gcov counts the
    # branches of every copy, and five copies of a function are no five functions.
    target_compile_options(lockstep_flags INTERFACE --coverage -fprofile-update=atomic -O0
        -Dalways_inline=unused)
    # Tests/end_child.h.
    target_link_options(lockstep_flags INTERFACE --coverage LINKER:-u,__gcov_dump)
endif()
if(LOCKSTEP_SIM_POINTS)
    target_compile_definitions(lockstep_flags INTERFACE LOCKSTEP_SIM_POINTS)
endif()
if(LOCKSTEP_FUZZ)
    target_compile_options(lockstep_flags INTERFACE -fsanitize=fuzzer-no-link)
    target_link_options(lockstep_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

add_library(lockstep_engine_flags INTERFACE)
target_compile_options(lockstep_engine_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fno-exceptions>)
# The undefined-behaviour sanitizer wants type information, and reports want stacks.
if(NOT LOCKSTEP_SANITIZE)
    target_compile_options(lockstep_engine_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fno-rtti>
        $<$<COMPILE_LANGUAGE:CXX>:-fno-unwind-tables>
            $<$<COMPILE_LANGUAGE:CXX>:-fno-asynchronous-unwind-tables>)
endif()
