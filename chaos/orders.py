"""Orders and pins proposed to waiting gangs, as the service's own search does once capacity becomes free.

The search itself needs a cluster in which only another order, or only pins, have a place, which a storm does
not keep still. Only the edit that follows a proposal may break, and that is the same.
"""

import json
from contextlib import suppress

import psycopg

from chaos.site import Site
from chaos.workload import ORDERED, PINNED, SETS

_ORDER = [{"set": [], "parts": [[{"key": "spine", "group": name}] for name in reversed(SETS)]}]

_PROPOSE = """
UPDATE workflows_taskgroup AS g
   SET other_form = jsonb_set(g.form, '{order}', %s::jsonb),
       notifications = notifications + 1, next_reconcile_at = clock_timestamp()
  FROM workflows_workflow AS w
 WHERE w.uuid = g.workflow_id AND w.base_name = %s AND g.status = 'SCHEDULING'
   AND g.created_in_cluster_at IS NOT NULL AND g.released_at IS NULL
   AND g.other_form IS NULL AND g.form_state = '' AND g.form -> 'order' = '[]'
"""

_PINS = [{"set": [{"key": "spine", "group": SETS[1]}], "domain": ["p1"]}]

_PIN = """
UPDATE workflows_taskgroup AS g
   SET other_form = jsonb_set(g.form, '{pins}', %s::jsonb),
       notifications = notifications + 1, next_reconcile_at = clock_timestamp()
  FROM workflows_workflow AS w
 WHERE w.uuid = g.workflow_id AND w.base_name = %s AND g.status = 'SCHEDULING'
   AND g.created_in_cluster_at IS NOT NULL AND g.released_at IS NULL
   AND g.other_form IS NULL AND g.form_state = '' AND g.form -> 'pins' = '[]'
"""


def propose(site: Site) -> None:
    """Propose the other order of two sets, or pins of one, to the gangs that wait for it.

    The database may be away.
    """
    with suppress(psycopg.Error), psycopg.connect(site.database_url, connect_timeout=2) as connection:
        connection.execute("SET lock_timeout = '500ms'")
        connection.execute(_PROPOSE, [json.dumps(_ORDER), ORDERED])
        connection.execute(_PIN, [json.dumps(_PINS), PINNED])
