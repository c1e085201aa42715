# `./project wheel` sources this: a wheel and a command that run with glibc 2.28 and later.
#
# zig brings clang, libc++ and what a program has to know of every glibc.  Libraries that are linked in
# are compiled by it, too: those of Debian 12's sources, in the versions of its packages, and ONNX.
# Headers alone are taken from Debian's packages as they are.

glibc=2.28
zig_version=0.17.1
protobuf_source=protobuf_3.21.12.orig.tar.gz
zlib_source=zlib_1.2.13.dfsg.orig.tar.bz2
wheel_sources_sha256="
930c2c3b5ecc6c9c12615cf5ad93f1cd6e12d0aba862b572e076259970ac3a53  $protobuf_source
71feb7947e3c00ef125f83b79a4e529bde31171e5babe48b391f06758d1ab0a1  $zlib_source"
header_packages=(libcli11-dev nlohmann-json3-dev libtomlplusplus-dev libfmt-dev libfmt9 rapidjson-dev)
version=$(sed -n 's/^project(onnxfit VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)

# Sets what tools/zig.cmake reads; $1 is x86_64 or aarch64.
choose_target() {
  export WHEEL_MACHINE=$1 WHEEL_TARGET=$1-linux-gnu.$glibc WHEEL_ZIG=$root/.deps/zig/ziglang/zig
  export WHEEL_ROOT=$root/.deps/wheel-$1 WHEEL_DEBIAN
  WHEEL_DEBIAN=$(c++ -print-multiarch)
  wheel_build=build/wheel-$1
  # zig keeps a copy of all that it compiles; ccache, which does not know its name, serves later builds.
  export ZIG_GLOBAL_CACHE_DIR=$root/build/zig-cache ZIG_LOCAL_CACHE_DIR=$root/build/zig-cache
  export CCACHE_COMPILERTYPE=clang CCACHE_COMPILERCHECK="string:zig $zig_version"
}

# --- What has to be there ------------------------------------------------------

install_zig() {
  rm -rf .deps/zig
  .deps/packing/bin/python -m pip install --no-deps --target .deps/zig "ziglang==$zig_version"
}

has_zig() {
  [[ -d .deps/zig/ziglang-$zig_version.dist-info ]]
}

has_wheel_sources() {
  (cd .deps && grep . <<<"$wheel_sources_sha256" | sha256sum --check --status 2>/dev/null)
}

# The machine's own list of packages, for sources, into the folder $1.
put_source_lists() {
  local file
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/*; do
    case "$file" in
      *.list) [[ ! -e $file ]] || sed -n 's/^deb /deb-src /p' "$file" >"$1/${file##*/}" ;;
      *.sources) sed 's/^Types:.*/Types: deb-src/' "$file" >"$1/${file##*/}" ;;
    esac
  done
}

# By apt with lists of its own: those of the machine stay as they are.
download_wheel_sources() {
  local lists=$root/.deps/apt
  local options=(-o Dir::Etc::SourceList=/dev/null -o "Dir::Etc::SourceParts=$lists/parts"
                 -o "Dir::State::Lists=$lists/lists" -o "Dir::Cache=$lists/cache")
  mkdir -p "$lists/parts" "$lists/lists/partial" "$lists/cache/archives/partial"
  put_source_lists "$lists/parts"
  apt-get "${options[@]}" update
  (cd .deps && apt-get "${options[@]}" source --download-only --tar-only protobuf zlib)
  has_wheel_sources || fail ".deps: expected the SHA-256 of tools/wheel.sh, found other sources"
}

# What $WHEEL_ROOT is made of.
wheel_recipe() {
  echo "$zig_version $WHEEL_TARGET $wheel_sources_sha256 $onnx_sha256 ${onnx_options[*]}"
  echo "$(protoc --version) $(dpkg-query -W "${header_packages[@]}")"
  sha256sum tools/zig.cmake
}

# --- Libraries -----------------------------------------------------------------

# CMake takes no words behind the name of an archiver.
put_archiver() {
  local name
  mkdir -p "$WHEEL_ROOT"/{bin,include,lib,usr}
  for name in ar ranlib; do
    printf '#!/bin/sh\nexec "%s" %s "$@"\n' "$WHEEL_ZIG" "$name" >"$WHEEL_ROOT/bin/$name"
    chmod +x "$WHEEL_ROOT/bin/$name"
  done
}

# RapidJSON 1.1 assigns to a constant in an operator that nobody calls; clang 22 refuses it.
put_headers() {
  dpkg -L "${header_packages[@]}" | grep -v '^/usr/share/doc' | sort -u |
    tar -c --no-recursion --files-from - | tar -x -C "$WHEEL_ROOT"
  sed -i '/GenericStringRef& operator=(const GenericStringRef& rhs) {/d' \
    "$WHEEL_ROOT/usr/include/rapidjson/document.h"
}

unpack() {
  rm -rf "$wheel_build/$1"
  mkdir -p "$wheel_build/$1"
  tar -xmf ".deps/$2" -C "$wheel_build/$1" --strip-components 1
}

build_zlib() {
  unpack zlib "$zlib_source"
  cd "$wheel_build/zlib"
  "$WHEEL_ZIG" cc -target "$WHEEL_TARGET" -O3 -g0 -DHAVE_UNISTD_H -D_LARGEFILE64_SOURCE=1 -c ./*.c
  "$WHEEL_ROOT/bin/ar" rcs "$WHEEL_ROOT/lib/libz.a" ./*.o
  cp zlib.h zconf.h "$WHEEL_ROOT/include"
}

# with_zig NAME OPTION…: configures and installs what unpack has put there.
with_zig() {
  local name=$1 launcher=()
  shift
  if command -v ccache >/dev/null; then launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
  cmake -S "$wheel_build/$name" -B "$wheel_build/$name/build" -G Ninja "${launcher[@]}" \
    -DCMAKE_TOOLCHAIN_FILE="$root/tools/zig.cmake" -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_INSTALL_PREFIX="$WHEEL_ROOT" -DCMAKE_INSTALL_LIBDIR=lib "$@"
  cmake --build "$wheel_build/$name/build" --parallel "$jobs" --target install
}

build_protobuf() {
  unpack protobuf "$protobuf_source"
  with_zig protobuf -DCMAKE_CXX_STANDARD=17 -Dprotobuf_BUILD_TESTS=OFF -Dprotobuf_WITH_ZLIB=OFF \
    -Dprotobuf_BUILD_PROTOC_BINARIES=OFF -Dprotobuf_BUILD_LIBPROTOC=OFF
}

build_wheel_onnx() {
  unpack onnx "onnx-$onnx_version.tar.gz"
  with_zig onnx "${onnx_options[@]}" -DProtobuf_PROTOC_EXECUTABLE="$(command -v protoc)"
}

build_wheel_libraries() {
  rm -rf "$WHEEL_ROOT"
  put_archiver
  put_headers
  (build_zlib)
  build_protobuf
  build_wheel_onnx
  ln -s . "$WHEEL_ROOT/onnx"  # CMakeLists.txt looks there
  wheel_recipe >"$WHEEL_ROOT/recipe"
}

# --- The command and the wheel -------------------------------------------------

configure_command() {
  cmake -S . -B "$wheel_build/onnxfit" -G Ninja -DCMAKE_TOOLCHAIN_FILE=tools/zig.cmake \
    -DCMAKE_BUILD_TYPE=Release -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=0 \
    -DONNXFIT_DEPS_DIR="$WHEEL_ROOT" -DSKBUILD=ON -DSKBUILD_SCRIPTS_DIR=bin \
    -DProtobuf_PROTOC_EXECUTABLE="$(command -v protoc)" -DCMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=ON
}

build_command() {
  [[ -e $wheel_build/onnxfit/build.ninja ]] || configure_command
  cmake --build "$wheel_build/onnxfit" --parallel "$jobs" --target onnxfit
}

# The wheel that pip would build, of a command that is there.
pack_wheel() {
  local dist=build/dist platform=manylinux_${glibc/./_}_$WHEEL_MACHINE new=$wheel_build/new
  rm -rf "$new"
  mkdir -p "$dist"
  .deps/packing/bin/python -m pip wheel . --no-deps --no-build-isolation --wheel-dir "$new" \
    --config-settings "cmake.define.ONNXFIT_COMMAND=$root/$wheel_build/onnxfit/onnxfit" \
    --config-settings "build-dir=$new/build"
  .deps/packing/bin/python -m wheel tags --remove --platform-tag "$platform" "$new"/*.whl
  cp "$new"/*.whl "$dist"
  cp "$wheel_build/onnxfit/onnxfit" "$dist/onnxfit-$version-linux-$WHEEL_MACHINE"
  (cd "$dist" && sha256sum "onnxfit-$version"-* >SHA256SUMS)
}

wheel_file() {
  echo "build/dist/onnxfit-$version-py3-none-manylinux_${glibc/./_}_$WHEEL_MACHINE.whl"
}

check_wheel() {
  python3 tools/check_wheel.py "$(wheel_file)"
  .deps/packing/bin/auditwheel show "$(wheel_file)"
}

# Answers are g++'s: the committed ones.
check_wheel_answers() {
  local command=$root/build/dist/onnxfit-$version-linux-$WHEEL_MACHINE
  python3 -B tests/readme.py --check --binary "$command"
  python3 -B tests/other_writers_test.py --binary "$command"
  python3 -B tests/pt2_versions_test.py --binary "$command"
  python3 -B benchmarks/accuracy/accuracy.py --check --binary "$command"
  python3 -B benchmarks/zoo/compare.py --check --every 4 --binary "$command"
}

# make_wheel MACHINE
make_wheel() {
  mkdir -p .deps
  use_some_home
  need_packages "${build_packages[@]}" bzip2  # zlib's source is compressed by it
  need_cmake
  need_packing
  choose_target "$1"
  has_onnx || stage "download ONNX" download_onnx
  has_zig || stage "install zig" install_zig
  has_wheel_sources || stage "download sources" download_wheel_sources
  [[ $(cat "$WHEEL_ROOT/recipe" 2>/dev/null) == "$(wheel_recipe)" ]] ||
    stage "libraries for $1" build_wheel_libraries
  stage "onnxfit for $1" build_command
  stage "wheel for $1" pack_wheel
  stage "glibc $glibc" check_wheel
  if [[ $1 == "$(uname -m)" ]]; then
    stage "same answers" check_wheel_answers
    stage "test the wheel" .deps/packing/bin/python -B tests/wheel_test.py --wheel "$(wheel_file)"
  fi
  (cd build/dist && ls -l)
}
