# What CPack does with the files of a package before it packs them: a static library keeps its
# symbols and loses its debug information, as Debian's policy asks.
file(GLOB_RECURSE archives ${CPACK_TEMPORARY_DIRECTORY}/*.a)
foreach(archive ${archives})
    execute_process(COMMAND strip --strip-debug --enable-deterministic-archives ${archive}
        COMMAND_ERROR_IS_FATAL ANY)
endforeach()
