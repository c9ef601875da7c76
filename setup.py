"""What a wheel holds: the package coder_core, and the app in a folder of its own, coder_lab.

The app's packages are named app and pages in a checkout. Beside other people's packages these names would collide, so
a wheel keeps them in coder_lab/, with streamlit_app.py, from which Streamlit imports them.
"""

from setuptools import find_namespace_packages, setup
from setuptools.command.build_py import build_py

APP = find_namespace_packages(include=["app", "app.*"])


class BuildModules(build_py):
    """Leave this file out of coder_lab/, whose only module is streamlit_app."""

    def find_package_modules(self, package, package_dir):
        modules = super().find_package_modules(package, package_dir)
        return [module for module in modules if module[:2] != ("coder_lab", "setup")]


setup(
    cmdclass={"build_py": BuildModules},
    packages=[
        *find_namespace_packages(include=["coder_core", "coder_core.*"]),
        "coder_lab",
        "coder_lab.pages",
        *(f"coder_lab.{name}" for name in APP),
    ],
    package_dir={"coder_lab": ".", "coder_lab.pages": "pages", "coder_lab.app": "app"},
    package_data={
        "coder_core": ["py.typed", "**/*.toml", "**/*.txt", "**/*.html", "**/*.css"],
        "coder_lab": [".streamlit/config.toml"],
        "coder_lab.app": ["**/*.toml", "**/*.css", "**/*.js", "**/*.svg", "**/*.png", "**/*.txt"],
    },
)
