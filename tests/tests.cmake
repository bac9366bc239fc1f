# Tests that are scripts, and the groups that the run script builds.
find_package(Python3 REQUIRED COMPONENTS Interpreter)

add_test(NAME layers COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/tools/check_layers.py)
if(TARGET lockstep_shared AND NOT LOCKSTEP_SANITIZE)
    add_test(NAME install COMMAND ${CMAKE_SOURCE_DIR}/tests/install/install_test.sh ${CMAKE_BINARY_DIR} ${CMAKE_SOURCE_DIR})
    set_tests_properties(install PROPERTIES LABELS script TIMEOUT 300)
endif()

# What clang's thread sanitizer checks: the programs whose first line carries the label tsan.
get_property(programs DIRECTORY PROPERTY BUILDSYSTEM_TARGETS)
set(tsan_programs)
foreach(program ${programs})
    get_target_property(is_tsan ${program} LOCKSTEP_TSAN)
    if(is_tsan)
        list(APPEND tsan_programs ${program})
    endif()
endforeach()
add_custom_target(thread-sanitizer-tests DEPENDS ${tsan_programs})
