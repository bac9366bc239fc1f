"""conanfile - `conan create` compiles and runs the first program with the package that it made."""

import io
import pathlib
import tempfile

from conan import ConanFile
from conan.errors import ConanException
from conan.tools.cmake import CMake, cmake_layout


class FirstProgram(ConanFile):
    settings = "os", "arch", "compiler", "build_type"
    generators = "CMakeToolchain", "CMakeDeps"

    def requirements(self) -> None:
        self.requires(self.tested_reference_str)

    def layout(self) -> None:
        cmake_layout(self)

    def build(self) -> None:
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def test(self) -> None:
        said = io.StringIO()
        with tempfile.TemporaryDirectory() as directory:
            program = pathlib.Path(self.cpp.build.bindir) / "first_steps"
            self.run(f"{program.resolve()} {directory}/store", said, env="conanrun")
        if said.getvalue() != "Lisbon is in Portugal\n":
            raise ConanException(f"first_steps said: {said.getvalue()}")
