# Compiles with zig's clang and libc++, for a glibc that is older than this machine's.
# tools/wheel.sh says in the environment what for (WHEEL_TARGET), where zig is (WHEEL_ZIG), and where
# it has put libraries and headers (WHEEL_ROOT): those of /usr are for another glibc.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR $ENV{WHEEL_MACHINE})
set(CMAKE_C_COMPILER $ENV{WHEEL_ZIG} cc -target $ENV{WHEEL_TARGET})
set(CMAKE_CXX_COMPILER $ENV{WHEEL_ZIG} c++ -target $ENV{WHEEL_TARGET})
set(CMAKE_AR $ENV{WHEEL_ROOT}/bin/ar)
set(CMAKE_RANLIB $ENV{WHEEL_ROOT}/bin/ranlib)
set(CMAKE_C_FLAGS_INIT -g0)  # zig writes debug information where nobody says
set(CMAKE_CXX_FLAGS_INIT -g0)
set(CMAKE_EXE_LINKER_FLAGS_INIT -s)

set(CMAKE_FIND_ROOT_PATH $ENV{WHEEL_ROOT} $ENV{WHEEL_ROOT}/usr)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_LIBRARY_ARCHITECTURE $ENV{WHEEL_DEBIAN})  # a folder of Debian's CMake files has its name
