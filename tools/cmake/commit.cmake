# Writes the header OUT with the version and the commit of the sources in SOURCE. It runs at each
# build, and touches the header only if the commit has changed.
set(commit unknown)
execute_process(COMMAND git -C ${SOURCE} rev-parse --short=12 HEAD OUTPUT_VARIABLE found
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(NOT failed)
    set(commit ${found})
    execute_process(COMMAND git -C ${SOURCE} diff --quiet HEAD ERROR_QUIET RESULT_VARIABLE changed)
    if(changed)
        string(APPEND commit "+changes")
    endif()
endif()
file(CONFIGURE OUTPUT ${OUT} CONTENT
    "#define LOCKSTEP_VERSION \"${VERSION}\"\n#define LOCKSTEP_COMMIT \"${commit}\"\n")
