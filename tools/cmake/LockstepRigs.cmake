# lockstep-acked and lockstep-faultfs: stores on disks that lose power, on file systems that fail.
# Not installed; ./tools/run and the tests run them.
file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tools/acked/*.cc)
list(REMOVE_ITEM sources ${CMAKE_SOURCE_DIR}/tools/acked/main.cc)
add_library(lockstep_acked OBJECT ${sources})
target_include_directories(lockstep_acked PUBLIC ${CMAKE_SOURCE_DIR})
target_link_libraries(lockstep_acked PUBLIC lockstep_flags)
lockstep_unite(lockstep_acked)
add_executable(lockstep-acked ${CMAKE_SOURCE_DIR}/tools/acked/main.cc)
target_link_libraries(lockstep-acked PRIVATE lockstep_acked lockstep_static CLI11::CLI11)

file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tools/faultfs/*.cc)
add_executable(lockstep-faultfs ${sources})
target_link_libraries(lockstep-faultfs PRIVATE lockstep_acked lockstep_static fmt::fmt CLI11::CLI11)
lockstep_unite(lockstep-faultfs)
