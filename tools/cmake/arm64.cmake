# arm64.cmake - toolchain for 64-bit ARM on a Debian 12 of another architecture. The libraries are
# those that apt installs beside its own (dpkg --add-architecture arm64); what is built runs under
# qemu-user.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(ENV{PKG_CONFIG_LIBDIR} /usr/lib/aarch64-linux-gnu/pkgconfig:/usr/share/pkgconfig)
# The libraries of both architectures lie side by side, so what is linked finds them at run time.
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64)
