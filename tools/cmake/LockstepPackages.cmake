# Debian packages. `cpack --config <build>/CPackConfig.cmake -B DIRECTORY` writes them after target
# `installable`:
#   liblockstep<abi>   the shared library; two interfaces may be installed beside each other
#   liblockstep-dev    headers, static library, CMake package, pkg-config file, examples
#   lockstep-tools     the programs, their scripts and manual pages
if(NOT LOCKSTEP_MAN_PAGES)
    return()
endif()
set(DEBIAN ${CMAKE_SOURCE_DIR}/tools/package/debian)
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME lockstep)
set(CPACK_PACKAGE_VENDOR "The Lockstep authors")
# The authors have no common address. A distributor of the packages sets its own.
set(LOCKSTEP_PACKAGER "The Lockstep authors <lockstep@localhost>" CACHE STRING
    "Maintainer that the packages name")
set(CPACK_DEBIAN_PACKAGE_MAINTAINER ${LOCKSTEP_PACKAGER})
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
# Directories as Debian's policy wants them, whatever the umask of the person who builds.
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ
    GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_SOURCE_DIR}/tools/package/before_packing.cmake)

set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME liblockstep${LOCKSTEP_ABI})
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION libs)
# A program that is linked with the library works with each later one of the same SONAME.
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_CONTROL_EXTRA ${DEBIAN}/triggers)

# What the static library links, and what the CMake package and the pkg-config file look for.
set(CPACK_DEBIAN_DEV_PACKAGE_NAME liblockstep-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_SHLIBDEPS OFF)
string(CONCAT CPACK_DEBIAN_DEV_PACKAGE_DEPENDS
    "${CPACK_DEBIAN_RUNTIME_PACKAGE_NAME} (= ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}), "
    "libboost-context-dev, libfmt-dev, liblz4-dev, libtbb-dev, liburing-dev, "
    # Of the procedure object of TPC-C.
    "libc6 (>= 2.36), libstdc++6 (>= 12)")
set(CPACK_DEBIAN_DEV_PACKAGE_RECOMMENDS "pkg-config")
set(CPACK_DEBIAN_DEV_PACKAGE_SUGGESTS "cmake, gdb")

# lockstep-icache records under valgrind, whose tool is linked with one version of it.
set(CPACK_DEBIAN_TOOLS_PACKAGE_NAME lockstep-tools)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SECTION database)
set(CPACK_DEBIAN_TOOLS_PACKAGE_RECOMMENDS "python3, valgrind")
set(CPACK_DEBIAN_TOOLS_PACKAGE_SUGGESTS "python3-matplotlib")

# What Debian wants in each package and no other installation has.
string(TIMESTAMP LOCKSTEP_PACKAGE_DATE "%a, %d %b %Y %H:%M:%S +0000" UTC)
foreach(component runtime dev tools)
    string(TOUPPER ${component} upper)
    set(package ${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
    set(LOCKSTEP_PACKAGE_FULL ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})
    configure_file(${DEBIAN}/changelog.in ${CMAKE_BINARY_DIR}/debian/changelog.Debian @ONLY)
    find_program(GZIP gzip REQUIRED)
    execute_process(COMMAND ${GZIP} -9nf ${CMAKE_BINARY_DIR}/debian/changelog.Debian)
    install(FILES ${DEBIAN}/copyright ${CMAKE_BINARY_DIR}/debian/changelog.Debian.gz DESTINATION
        ${CMAKE_INSTALL_DATAROOTDIR}/doc/${package} COMPONENT debian_${component}
        EXCLUDE_FROM_ALL)
    configure_file(${DEBIAN}/${component}.overrides ${CMAKE_BINARY_DIR}/debian/${package} @ONLY)
    install(FILES ${CMAKE_BINARY_DIR}/debian/${package} DESTINATION
        ${CMAKE_INSTALL_DATAROOTDIR}/lintian/overrides COMPONENT debian_${component}
        EXCLUDE_FROM_ALL)
    list(APPEND CPACK_COMPONENTS_ALL ${component} debian_${component})
endforeach()

# The first line is the summary; the project's own description would come before it.
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")
set(what "Lockstep stores records in B-trees and heap files, with transactions,
record locks and recovery after a crash. Transactions run on user-level
threads, so that a wait for a lock, a page or the log does not block a kernel
thread.")
set(CPACK_DEBIAN_RUNTIME_DESCRIPTION "embeddable OLTP storage manager - shared library
${what}
.
This package contains the shared library.")
set(CPACK_DEBIAN_DEV_DESCRIPTION "embeddable OLTP storage manager - development files
${what}
.
This package contains the headers, the static library, the files for CMake
and pkg-config, and examples.")
set(CPACK_DEBIAN_TOOLS_DESCRIPTION "embeddable OLTP storage manager - programs
${what}
.
This package contains lockstep, which inspects a store, the TPC-C driver
lockstep-tpcc, and the benchmarks lockstep-bench and lockstep-icache.")

include(CPack)
foreach(component runtime dev tools)
    cpack_add_component_group(${component})
    cpack_add_component(${component} GROUP ${component})
    cpack_add_component(debian_${component} GROUP ${component})
endforeach()
