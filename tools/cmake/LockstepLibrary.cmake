# The library, static and shared. Install rules stand in LockstepInstall.cmake.
if(TARGET lockstep_threads AND TARGET lockstep_txn AND TARGET lockstep_sm)
    foreach(kind STATIC SHARED)
        string(TOLOWER ${kind} suffix)
        add_library(lockstep_${suffix} ${kind}
            $<TARGET_OBJECTS:lockstep_threads> $<TARGET_OBJECTS:lockstep_txn>
                $<TARGET_OBJECTS:lockstep_sm>)
        set_target_properties(lockstep_${suffix} PROPERTIES OUTPUT_NAME lockstep VERSION
            ${PROJECT_VERSION} SOVERSION 0)
        target_link_libraries(lockstep_${suffix} PRIVATE $<BUILD_INTERFACE:lockstep_flags>
            Boost::context
            PkgConfig::URING fmt::fmt TBB::tbb Threads::Threads)
        target_include_directories(lockstep_${suffix} PUBLIC $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}>)
    endforeach()
    add_library(lockstep::lockstep ALIAS lockstep_static)
    include(LockstepInstall OPTIONAL)
endif()
