# cmake --install, second half: programs, their scripts and manual pages, documents and licence. The
# library's half is LockstepInstall.cmake. Target `installable` builds all that is installed.
set(LOCKSTEP_PROGRAMS)
foreach(program lockstep lockstep-tpcc lockstep-bench lockstep-icache)
    if(TARGET ${program})
        list(APPEND LOCKSTEP_PROGRAMS ${program})
    endif()
endforeach()
install(TARGETS ${LOCKSTEP_PROGRAMS} DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tools)
# Only lockstep-icache starts it (tools/icache/runner.cc).
if(TARGET lockstep-tracer)
    install(TARGETS lockstep-tracer DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/lockstep COMPONENT
        tools)
endif()
# The scripts that the programs start, in the folders of the source tree (tpcc/scripts.h).
set(LOCKSTEP_SHARE ${CMAKE_INSTALL_DATAROOTDIR}/lockstep)
foreach(folder tools/icache tools/autosteps tpcc)
    install(DIRECTORY ${CMAKE_SOURCE_DIR}/${folder}/ DESTINATION ${LOCKSTEP_SHARE}/${folder}
        COMPONENT tools USE_SOURCE_PERMISSIONS FILES_MATCHING PATTERN "*.py"
        PATTERN "__pycache__" EXCLUDE)
endforeach()
install(FILES ${CMAKE_SOURCE_DIR}/tools/gdb/lockstep_gdb.py DESTINATION
    ${LOCKSTEP_SHARE}/tools/gdb COMPONENT dev)

include(LockstepManPages)
if(LOCKSTEP_MAN_PAGES)
    install(DIRECTORY ${LOCKSTEP_MAN_DIRECTORY}/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1
        COMPONENT tools FILES_MATCHING PATTERN "*.1.gz")
endif()

set(LOCKSTEP_DOCUMENTS ${CMAKE_INSTALL_DATAROOTDIR}/doc/lockstep)
install(FILES ${CMAKE_SOURCE_DIR}/README.md ${CMAKE_SOURCE_DIR}/CHANGELOG.md DESTINATION
    ${LOCKSTEP_DOCUMENTS} COMPONENT dev)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/tools/examples DESTINATION ${LOCKSTEP_DOCUMENTS} COMPONENT
    dev)
# The packages name the licence in a file `copyright` of their own.
install(FILES ${CMAKE_SOURCE_DIR}/LICENSE DESTINATION ${LOCKSTEP_DOCUMENTS} COMPONENT licence)

# What an install of the component dev takes from the build, and what a whole install takes.
add_custom_target(libraries DEPENDS lockstep_static lockstep_shared lockstep_xa lockstep_tpcc_shard)
add_custom_target(installable DEPENDS libraries ${LOCKSTEP_PROGRAMS})
if(LOCKSTEP_MAN_PAGES)
    add_dependencies(installable man)
endif()
