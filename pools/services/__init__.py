"""The only writers of configuration and of observed backends.

Each write is one transaction: it locks what it checks, finds all faults at once and leaves a ConfigRevision.
REST, the admin and the commands call these functions and nothing below them.
"""

from pools.services.backends import delete_backend, post_backend, put_backend
from pools.services.files import Imported, export_configuration, import_configuration, import_request
from pools.services.history import retag, roll_back, take_out
from pools.services.pod_templates import delete_pod_template, put_pod_template, put_pod_templates
from pools.services.pools import delete_pool, patch_pool, put_pool, put_pools
from pools.services.preview import PoolPreview, preview_pool
from pools.services.recording import ConfigChange, Saved, WriteMode
from pools.services.renaming import put_platform, rename_platform, rename_pool
from pools.services.suspects import clear_suspicion
from pools.services.workflow_config import patch_workflow_config, put_workflow_config

__all__ = [
    "ConfigChange",
    "Imported",
    "PoolPreview",
    "Saved",
    "WriteMode",
    "clear_suspicion",
    "delete_backend",
    "delete_pod_template",
    "delete_pool",
    "export_configuration",
    "import_configuration",
    "import_request",
    "patch_pool",
    "patch_workflow_config",
    "post_backend",
    "preview_pool",
    "put_backend",
    "put_platform",
    "put_pod_template",
    "put_pod_templates",
    "put_pool",
    "put_pools",
    "put_workflow_config",
    "rename_platform",
    "rename_pool",
    "retag",
    "roll_back",
    "take_out",
]
