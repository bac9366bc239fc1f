# cmake --install: headers as <lockstep/...>, static and shared library, CMake package and
# pkg-config file.
include(CMakePackageConfigHelpers)

# The public headers of all layers become one folder, <lockstep/...>, behind one include path.
foreach(layer threads txn sm)
    install(DIRECTORY ${PROJECT_SOURCE_DIR}/${layer}/include/lockstep DESTINATION
        ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev
        FILES_MATCHING PATTERN "*.h")
endforeach()

# The application's functions run on the store's small stacks: a large frame touches each of its
# pages in turn, so it cannot step over the guard below the stack. The engine's own frames are
# smaller than the guard.
set(LOCKSTEP_APPLICATION_FLAGS -fstack-clash-protection)

foreach(kind static shared)
    target_compile_features(lockstep_${kind} PUBLIC cxx_std_20)
    target_compile_options(lockstep_${kind} INTERFACE ${LOCKSTEP_APPLICATION_FLAGS})
    target_include_directories(lockstep_${kind} INTERFACE
        $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/threads/include>
            $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/txn/include>
        $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/sm/include>
            $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endforeach()
set_target_properties(lockstep_static PROPERTIES EXPORT_NAME lockstep)
install(TARGETS lockstep_static lockstep_shared EXPORT lockstep
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT dev)
install(EXPORT lockstep NAMESPACE lockstep:: FILE lockstep-targets.cmake DESTINATION
    ${CMAKE_INSTALL_LIBDIR}/cmake/lockstep COMPONENT dev)

# What a program needs that links the static library.
set(LOCKSTEP_FIND_LINKED "find_dependency(PkgConfig)
find_dependency(Boost COMPONENTS context)
find_dependency(fmt)
find_dependency(TBB)
pkg_check_modules(URING REQUIRED IMPORTED_TARGET liburing)
pkg_check_modules(LZ4 REQUIRED IMPORTED_TARGET liblz4)
")
set(LOCKSTEP_PC_LINKED "Requires.private: liburing liblz4 fmt tbb
Libs.private: -lboost_context -pthread")
if(LOCKSTEP_BUNDLED)
    set(LOCKSTEP_FIND_LINKED)
    set(LOCKSTEP_PC_LINKED "Libs.private: -pthread -ldl")
endif()

file(WRITE ${PROJECT_BINARY_DIR}/lockstep-config.cmake.in [=[
@PACKAGE_INIT@
# The C interface (<lockstep/lockstep.h>) needs the shared library and nothing else, so a project
# without C++ can use it.
if(NOT TARGET lockstep::c)
    add_library(lockstep::c SHARED IMPORTED)
    set_target_properties(lockstep::c PROPERTIES
        IMPORTED_LOCATION "@PACKAGE_CMAKE_INSTALL_LIBDIR@/liblockstep.so.@PROJECT_VERSION@"
        IMPORTED_SONAME "liblockstep.so.@LOCKSTEP_ABI@"
        INTERFACE_COMPILE_OPTIONS "@LOCKSTEP_APPLICATION_FLAGS@"
        INTERFACE_INCLUDE_DIRECTORIES "@PACKAGE_CMAKE_INSTALL_INCLUDEDIR@")
endif()
get_property(lockstep_languages GLOBAL PROPERTY ENABLED_LANGUAGES)
if(NOT "CXX" IN_LIST lockstep_languages)
    return()
endif()
include(CMakeFindDependencyMacro)
find_dependency(Threads)
@LOCKSTEP_FIND_LINKED@include(${CMAKE_CURRENT_LIST_DIR}/lockstep-targets.cmake)
check_required_components(lockstep)
]=])
configure_package_config_file(${PROJECT_BINARY_DIR}/lockstep-config.cmake.in
    ${PROJECT_BINARY_DIR}/lockstep-config.cmake
    INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/lockstep
    PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/lockstep-config-version.cmake COMPATIBILITY
    SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/lockstep-config.cmake
    ${PROJECT_BINARY_DIR}/lockstep-config-version.cmake
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/lockstep COMPONENT dev)

# Relative to where it lies (<prefix>/lib/<arch>/pkgconfig or <prefix>/lib/pkgconfig), so that the
# tree may be moved.
file(RELATIVE_PATH pc_to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
file(WRITE ${PROJECT_BINARY_DIR}/lockstep.pc "prefix=\${pcfiledir}/${pc_to_prefix}
libdir=\${pcfiledir}/..
Name: lockstep
Description: ${PROJECT_DESCRIPTION}
Version: ${PROJECT_VERSION}
Cflags: -I\${prefix}/include ${LOCKSTEP_APPLICATION_FLAGS}
Libs: -L\${libdir} -llockstep
${LOCKSTEP_PC_LINKED}
")
install(FILES ${PROJECT_BINARY_DIR}/lockstep.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
    COMPONENT dev)
