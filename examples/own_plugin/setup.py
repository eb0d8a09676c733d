"""A package of a third party, with `encoder: stacked_gru`.

Once it is installed, every command of espnet_ext knows that encoder.
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
