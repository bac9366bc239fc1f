"""conanfile - Lockstep as a Conan 2 package, built from the source around this file.

`conan create tools/package/conan` in an unpacked source archive builds it and tests it. The
libraries that it links are those of Debian; Conan's mode of package managers says whether it may
install them.
"""

import pathlib
import re

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy
from conan.tools.scm import Version
from conan.tools.system.package_manager import Apt

SOURCES = ("CMakeLists.txt", "LICENSE", "sm/*", "txn/*", "threads/*", "tools/*")
DEBIAN = "boost-context fmt lz4 tbb uring xxhash".split()
VERSION = "sm/include/lockstep/c/version.h"


class Lockstep(ConanFile):
    name = "lockstep"
    description = "Embeddable OLTP storage manager on user-level threads"
    license = "Apache-2.0"
    package_type = "static-library"
    settings = "os", "arch", "compiler", "build_type"

    @property
    def tree(self) -> pathlib.Path:
        return pathlib.Path(self.recipe_folder).resolve().parents[2]

    def set_version(self) -> None:
        numbers = re.findall(r"VERSION_[A-Z]+ (\d+)", (self.tree / VERSION).read_text())
        self.version = ".".join(numbers)

    def export_sources(self) -> None:
        for pattern in SOURCES:
            copy(self, pattern, src=str(self.tree), dst=self.export_sources_folder)

    def layout(self) -> None:
        cmake_layout(self, generator="Ninja")

    def validate(self) -> None:
        check_min_cppstd(self, 20)
        compiler, least = str(self.settings.compiler), {"gcc": "12", "clang": "16"}
        if self.settings.os != "Linux" or self.settings.arch not in ("x86_64", "armv8"):
            raise ConanInvalidConfiguration("Lockstep runs on 64-bit Linux only")
        if Version(self.settings.compiler.version) < least.get(compiler, "0"):
            raise ConanInvalidConfiguration(f"Lockstep needs {compiler} {least[compiler]} or newer")

    def system_requirements(self) -> None:
        packages = [f"lib{name}-dev" for name in DEBIAN] + ["nlohmann-json3-dev", "pkg-config"]
        Apt(self).install(packages, check=True)

    def generate(self) -> None:
        toolchain = CMakeToolchain(self, generator="Ninja")
        for option in ("LOCKSTEP_TESTS", "LOCKSTEP_TOOLS"):
            toolchain.cache_variables[option] = False
        toolchain.cache_variables["LOCKSTEP_UNITED"] = True
        toolchain.cache_variables["CMAKE_INSTALL_LIBDIR"] = "lib"
        toolchain.generate()

    def build(self) -> None:
        cmake = CMake(self)
        cmake.configure()
        cmake.build(target="lockstep_static")
        cmake.build(target="lockstep_shared")

    def package(self) -> None:
        for component in ("dev", "runtime"):
            CMake(self).install(component=component)
        copy(self, "LICENSE", src=self.source_folder, dst=f"{self.package_folder}/licenses")

    def package_info(self) -> None:
        # find_package() gets the files that the library installs.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = ["lib/cmake/lockstep"]
        self.cpp_info.libs = ["lockstep"]
        self.cpp_info.system_libs = ["boost_context", "uring", "lz4", "fmt", "tbb", "pthread"]
