# The library, static and shared. Install rules stand in LockstepInstall.cmake.
# The SONAME names the interface that a program was linked with; CONTRIBUTING.md says when it
# changes.
set(LOCKSTEP_ABI ${PROJECT_VERSION_MAJOR})
if(PROJECT_VERSION_MAJOR EQUAL 0)
    set(LOCKSTEP_ABI 0.${PROJECT_VERSION_MINOR})
endif()

# What the library links besides the C library and the compiler's runtime.
set(LOCKSTEP_LINKED Boost::context PkgConfig::URING PkgConfig::LZ4 fmt::fmt TBB::tbb)
if(LOCKSTEP_BUNDLED)
    # Nobody else needs what is inside.
    list(TRANSFORM LOCKSTEP_LINKED REPLACE "(.+)" "$<BUILD_INTERFACE:\\1>")
endif()

if(TARGET lockstep_threads AND TARGET lockstep_txn AND TARGET lockstep_sm)
    foreach(kind STATIC SHARED)
        string(TOLOWER ${kind} suffix)
        add_library(lockstep_${suffix} ${kind}
            $<TARGET_OBJECTS:lockstep_threads> $<TARGET_OBJECTS:lockstep_txn>
                $<TARGET_OBJECTS:lockstep_sm>)
        set_target_properties(lockstep_${suffix} PROPERTIES OUTPUT_NAME lockstep VERSION
            ${PROJECT_VERSION} SOVERSION ${LOCKSTEP_ABI})
        target_link_libraries(lockstep_${suffix} PRIVATE $<BUILD_INTERFACE:lockstep_flags>
            ${LOCKSTEP_LINKED} Threads::Threads ${CMAKE_DL_LIBS})
        target_include_directories(lockstep_${suffix} PUBLIC
            $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
    endforeach()
    if(LOCKSTEP_BUNDLED)
        lockstep_bundle(lockstep_static)
    endif()
    add_library(lockstep::lockstep ALIAS lockstep_static)
    add_library(lockstep::lockstep_shared ALIAS lockstep_shared)
    # Only the public interface is exported.
    set(map ${PROJECT_SOURCE_DIR}/tools/package/liblockstep.map.in)
    configure_file(${map} ${PROJECT_BINARY_DIR}/liblockstep.map @ONLY)
    target_link_options(lockstep_shared PRIVATE
        LINKER:--version-script=${PROJECT_BINARY_DIR}/liblockstep.map)
    set_target_properties(lockstep_shared PROPERTIES LINK_DEPENDS
        ${PROJECT_BINARY_DIR}/liblockstep.map)
    include(LockstepInstall OPTIONAL)
endif()
