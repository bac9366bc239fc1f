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

# Writes a document of the source to TARGET. A link to a file that is not installed becomes the name
# of that file in the source.
function(lockstep_installed_document source target)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
    file(READ ${source} text)
    string(REGEX MATCHALL "!?\\[[^]]*\\]\\([^) #]+[^) ]*\\)" links "${text}")
    foreach(link IN LISTS links)
        string(REGEX REPLACE "^!?\\[([^]]*)\\]\\(([^)]*)\\)$" "\\1" words "${link}")
        string(REGEX REPLACE "^!?\\[([^]]*)\\]\\(([^)]*)\\)$" "\\2" path "${link}")
        if(path MATCHES "^[a-z]+:" OR path MATCHES "^(LICENSE|README.md|CHANGELOG.md)")
            continue()
        endif()
        string(FIND "${path}" "${words}" at)
        if(at EQUAL 0)
            string(REPLACE "${link}" "`${path}`" text "${text}")
        else()
            string(REPLACE "${link}" "${words}: `${path}`" text "${text}")
        endif()
    endforeach()
    string(REGEX REPLACE "^(# [^\n]*\n)" "\\1
This document comes from the source of Lockstep. Names of files are relative to the source; its
folder `tools/examples/` is installed beside this document as `examples/`.
" text "${text}")
    file(WRITE ${target}.new "${text}")
    file(COPY_FILE ${target}.new ${target} ONLY_IF_DIFFERENT)
    file(REMOVE ${target}.new)
endfunction()

set(LOCKSTEP_DOCUMENTS ${CMAKE_INSTALL_DATAROOTDIR}/doc/lockstep)
foreach(document README.md CHANGELOG.md)
    lockstep_installed_document(${CMAKE_SOURCE_DIR}/${document}
        ${CMAKE_BINARY_DIR}/documents/${document})
    install(FILES ${CMAKE_BINARY_DIR}/documents/${document} DESTINATION ${LOCKSTEP_DOCUMENTS}
        COMPONENT dev)
endforeach()
install(DIRECTORY ${CMAKE_SOURCE_DIR}/tools/examples DESTINATION ${LOCKSTEP_DOCUMENTS} COMPONENT
    dev)
install(FILES ${CMAKE_SOURCE_DIR}/tools/package/lockstep.rules.yml DESTINATION
    ${LOCKSTEP_DOCUMENTS} COMPONENT tools)
if(LOCKSTEP_MAN_PAGES)
    install(FILES ${LOCKSTEP_DASHBOARD} DESTINATION ${LOCKSTEP_DOCUMENTS} COMPONENT tools)
endif()
# The packages name the licence in a file `copyright` of their own.
install(FILES ${CMAKE_SOURCE_DIR}/LICENSE DESTINATION ${LOCKSTEP_DOCUMENTS} COMPONENT licence)

# What an install of the component dev takes from the build, and what a whole install takes.
add_custom_target(libraries DEPENDS lockstep_static lockstep_shared lockstep_xa lockstep_tpcc_shard)
add_custom_target(installable DEPENDS libraries ${LOCKSTEP_PROGRAMS})
if(LOCKSTEP_MAN_PAGES)
    add_dependencies(installable man)
endif()
