"""A package of a third party: once it is installed, every command of espnet_ext knows
`encoder: stacked_gru`.
"""

from setuptools import setup

setup(
    name="own_plugin",
    version="1.0",
    py_modules=["own_plugin"],
    entry_points={
        "espnet_ext.plugins": ["encoder.stacked_gru = own_plugin:StackedGRUEncoder"]
    },
)
