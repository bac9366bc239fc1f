# lockstep-coherence: TPC-C on an engine that tells tools/coherence of each access to memory. Only
# in builds with LOCKSTEP_COHERENCE, whose other programs lack what the instrumented code calls.
set(place ${CMAKE_SOURCE_DIR}/tools/coherence)
# A library, so that tests reach the model.
add_library(lockstep_coherence_model OBJECT ${place}/caches.cc ${place}/names.cc)
target_include_directories(lockstep_coherence_model PUBLIC ${CMAKE_SOURCE_DIR})
target_link_libraries(lockstep_coherence_model PRIVATE lockstep_flags)
# The measured time of a line's transfer, for tools/scaling.
add_executable(lockstep-transfer EXCLUDE_FROM_ALL ${CMAKE_SOURCE_DIR}/tools/scaling/transfer.cc)
target_link_libraries(lockstep-transfer PRIVATE lockstep_flags Threads::Threads)
if(LOCKSTEP_COHERENCE)
    # Without the flags of instrumented code, with which the compiler declares the calls itself.
    add_library(lockstep_coherence_counter OBJECT ${place}/counter.cc ${place}/turns.cc)
    target_include_directories(lockstep_coherence_counter PRIVATE ${CMAKE_SOURCE_DIR})
    target_compile_options(lockstep_coherence_counter PRIVATE -Wall -Wextra -Werror)
    add_executable(lockstep-coherence ${place}/main.cc)
    target_link_libraries(lockstep-coherence PRIVATE lockstep_coherence_counter
        lockstep_coherence_model lockstep_tpcc
        lockstep_static nlohmann_json::nlohmann_json CLI11::CLI11)
    # The counter does not count itself.
    foreach(target lockstep_coherence_model lockstep-coherence)
        target_compile_options(${target} PRIVATE -fno-sanitize=thread)
    endforeach()
    foreach(name memcpy memset memmove memcmp pthread_mutex_lock clock_gettime)
        target_link_options(lockstep-coherence PRIVATE LINKER:--wrap=${name})
    endforeach()
endif()
