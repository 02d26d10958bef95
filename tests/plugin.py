"""Settings of a development installation, made before Django reads them; loaded with ``-p``."""

import os

os.environ["OSMO_ENV"] = "development"
