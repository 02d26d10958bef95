"""What tests of several modules build: one module per noun, one meaning per name.

Rows are in ``tests.factories``, what stands for another process in ``tests.fakes``.
"""
