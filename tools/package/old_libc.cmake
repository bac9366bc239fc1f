# old_libc.cmake - toolchain for programs that run with the C library of Debian 11 and newer ones.
# sysroot.py copies it into the folder that it makes, and it uses what lies beside it.
set(CMAKE_SYSROOT ${CMAKE_CURRENT_LIST_DIR})
# Before the folders of the compiler, which lead to this system's C library.
foreach(folder usr/lib lib)
    string(APPEND folders "-L${CMAKE_SYSROOT}/${folder}/x86_64-linux-gnu ")
endforeach()
set(CMAKE_EXE_LINKER_FLAGS_INIT "${folders} -B${CMAKE_SYSROOT}/usr/lib/x86_64-linux-gnu")
# The C++ library of g++ 12 is not on older systems, so what is linked has a copy of it, whose names
# no other library sees.
string(CONCAT link "${CMAKE_EXE_LINKER_FLAGS_INIT} -static-libstdc++ -Wl,--exclude-libs,ALL "
    "-Wl,-z,defs ${CMAKE_SYSROOT}/old_libc.o")
set(CMAKE_SHARED_LINKER_FLAGS_INIT ${link})
# The names of the interpreter are those that an extension leaves open.
string(REPLACE "-Wl,-z,defs " "" link "${link}")
set(CMAKE_MODULE_LINKER_FLAGS_INIT ${link})
