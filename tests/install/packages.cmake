# The Debian packages, and the symbols of the shared library.
if(LOCKSTEP_MAN_PAGES AND CMAKE_BUILD_TYPE STREQUAL Release AND NOT LOCKSTEP_SANITIZE AND NOT
    LOCKSTEP_COVERAGE)
    add_test(NAME packages COMMAND ${CMAKE_SOURCE_DIR}/tests/install/packages_test.sh
        ${CMAKE_BINARY_DIR} ${CMAKE_SOURCE_DIR})
    add_test(NAME symbols COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/tools/package/symbols.py
        $<TARGET_FILE:lockstep_shared>)
    set_tests_properties(packages symbols PROPERTIES LABELS script TIMEOUT 300)
elseif(NOT LOCKSTEP_MAN_PAGES)
    lockstep_skipped_tests("help2man is not installed, or tools are not built" packages symbols)
endif()
