# The manual pages: target `man` writes them into <build>/man from the programs' --help, and the
# dashboard for Grafana beside them. The packages need them, so LOCKSTEP_MAN_PAGES says whether they
# can be made.
find_program(HELP2MAN help2man)
find_package(Python3 COMPONENTS Interpreter)
set(LOCKSTEP_MAN_PAGES OFF)
if(NOT HELP2MAN OR NOT Python3_FOUND)
    message(WARNING "help2man or python3 is missing: no manual pages are made, and no packages. "
        "Install it (Debian: apt-get install help2man python3) and configure again.")
    return()
endif()
set(LOCKSTEP_MAN_PAGES ON)
set(LOCKSTEP_MAN_DIRECTORY ${CMAKE_BINARY_DIR}/man)
set(programs)
foreach(program ${LOCKSTEP_PROGRAMS})
    list(APPEND programs $<TARGET_FILE:${program}>)
endforeach()
add_custom_command(OUTPUT ${LOCKSTEP_MAN_DIRECTORY}/written
    COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/tools/package/man_pages.py
        --version ${PROJECT_VERSION} --out ${LOCKSTEP_MAN_DIRECTORY} ${programs}
    COMMAND ${CMAKE_COMMAND} -E touch ${LOCKSTEP_MAN_DIRECTORY}/written
    DEPENDS ${LOCKSTEP_PROGRAMS} ${CMAKE_SOURCE_DIR}/tools/package/man_pages.py
    COMMENT "Manual pages from the programs' --help" VERBATIM)
set(LOCKSTEP_DASHBOARD ${LOCKSTEP_MAN_DIRECTORY}/lockstep.dashboard.json)
add_custom_command(OUTPUT ${LOCKSTEP_DASHBOARD}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${LOCKSTEP_MAN_DIRECTORY}
    COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/tools/package/dashboard.py
        ${LOCKSTEP_DASHBOARD}
    DEPENDS ${CMAKE_SOURCE_DIR}/tools/package/dashboard.py
    COMMENT "A dashboard for Grafana" VERBATIM)
add_custom_target(man ALL DEPENDS ${LOCKSTEP_MAN_DIRECTORY}/written ${LOCKSTEP_DASHBOARD})
