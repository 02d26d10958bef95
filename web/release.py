"""The version of the product: the one place that says it.

Both distributions (``pyproject.toml``, ``packaging/pyproject.toml``) read it from here when they are
built. Files that cannot read it, such as the chart's, repeat it, and a test compares them.
"""

VERSION = "0.1.0"
