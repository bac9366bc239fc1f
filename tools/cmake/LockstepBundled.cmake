# LOCKSTEP_BUNDLED: the library brings what it links, as static libraries inside it. So a program
# needs nothing but it, the C library and the compiler's runtime. The folder that
# tools/package/sysroot.py makes has these libraries.
set(LOCKSTEP_BUNDLED_ARCHIVES)
function(lockstep_bundled target library)
    add_library(${target} INTERFACE IMPORTED)
    if(library)
        find_library(LOCKSTEP_BUNDLED_${library} lib${library}.a REQUIRED)
        target_link_libraries(${target} INTERFACE ${LOCKSTEP_BUNDLED_${library}} ${ARGN})
        set(LOCKSTEP_BUNDLED_ARCHIVES ${LOCKSTEP_BUNDLED_ARCHIVES} ${LOCKSTEP_BUNDLED_${library}}
            PARENT_SCOPE)
    endif()
endfunction()
lockstep_bundled(Boost::context boost_context)
lockstep_bundled(PkgConfig::URING uring)
lockstep_bundled(PkgConfig::LZ4 lz4)
lockstep_bundled(TBB::tbb tbb Threads::Threads ${CMAKE_DL_LIBS})
# Headers alone.
lockstep_bundled(PkgConfig::XXHASH "")
lockstep_bundled(fmt::fmt "")
target_compile_definitions(fmt::fmt INTERFACE FMT_HEADER_ONLY)

# lockstep_bundle(TARGET): a static library gets the members of the others.
function(lockstep_bundle target)
    list(TRANSFORM LOCKSTEP_BUNDLED_ARCHIVES PREPEND "addlib " OUTPUT_VARIABLE lines)
    list(JOIN lines "\n" lines)
    set(script ${PROJECT_BINARY_DIR}/${target}.mri)
    file(GENERATE OUTPUT ${script} CONTENT
        "open $<TARGET_FILE:${target}>\n${lines}\nsave\nend\n")
    add_custom_command(TARGET ${target} POST_BUILD COMMAND sh -c
        "'${CMAKE_AR}' -M <'${script}'" VERBATIM)
endfunction()
