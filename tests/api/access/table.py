"""Every endpoint, and what it answers to each role in the caller's own pool and in another one.

Columns are callers, see ``callers.CALLERS``. Where an address names a pool, or a workflow in one, a cell
is ``own/other``: the answer where the pool is "mine" and where it is "other". ``ok`` is any answer of the
endpoint itself, also that the body is wrong.

::

  nobody   osmo-default alone
  prefix   osmo-min, whose name "mine" begins with
  member   osmo-mine, by OSMO's convention
  reader   workflow:List, workflow:Read on pool/mine
  keeper   config:* on pool/mine
  user     osmo-user
  admin    staff
"""

TABLE = """
                                              nobody  prefix   member   reader   keeper   user   admin

POST   /api/pool/{pool}/workflow              403     404/404  ok/404   403/403  403/403  ok/ok  ok/ok
POST   /api/pool/{pool}/workflow/{workflow_id}/restart  403  404/404  ok/404   403/403  403/403  ok/ok  ok/ok
GET    /api/pool/{pool}/outcomes              403     404/404  ok/404   ok/404   403/403  ok/ok  ok/ok
GET    /api/workflow                          403     ok       ok       ok       403      ok     ok
POST   /api/workflow                          403     ok       ok       403      403      ok     ok
GET    /api/workflow/{workflow_id}            403     404/404  ok/404   ok/404   403/403  ok/ok  ok/ok
GET    /api/workflow/{workflow_id}/explain    403     404/404  ok/404   ok/404   403/403  ok/ok  ok/ok
GET    /api/workflow/{workflow_id}/spec       403     404/404  ok/404   ok/404   403/403  ok/ok  ok/ok
GET    /api/workflow/{workflow_id}/events     403     404/404  ok/404   ok/404   403/403  ok/ok  ok/ok
GET    /api/workflow/{workflow_id}/watch      403     404/404  ok/404   ok/404   403/403  ok/ok  ok/ok
GET    /api/workflow/{workflow_id}/logs       403     404/404  ok/404   ok/404   403/403  ok/ok  ok/ok
GET    /api/workflow/{workflow_id}/error_logs 403     404/404  ok/404   ok/404   403/403  ok/ok  ok/ok
POST   /api/workflow/{workflow_id}/cancel     403     404/404  ok/404   403/403  403/403  ok/ok  ok/ok
POST   /api/workflow/{workflow_id}/exec/task/{task}    403  404/404  403/404  403/403  403/403  403/403  ok/ok
POST   /api/workflow/{workflow_id}/exec/group/{group}  403  404/404  403/404  403/403  403/403  403/403  ok/ok
GET    /api/router/exec/{workflow_id}/client/{key}     403  ok       ok      403      403      ok     ok
POST   /api/workflow/{workflow_id}/portforward/{task}  403  404/404  403/404  403/403  403/403  403/403  ok/ok
GET    /api/router/portforward/{workflow_id}/client/{key}  403  ok   ok      403      403      ok     ok
POST   /api/workflow/{workflow_id}/tag        403     404/404  ok/404   403/403  403/403  ok/ok  ok/ok
GET    /api/tag                               403     ok       ok       ok       403      ok     ok
GET    /api/task                              403     ok       ok       ok       403      ok     ok
GET    /api/users                             403     ok       ok       ok       403      ok     ok

GET    /api/pool_quota                        403     ok       ok       403      403      ok     ok
GET    /api/resources                         403     ok       ok       403      403      ok     ok
GET    /api/resources/{name}                  403     ok       ok       403      403      ok     ok
GET    /api/pool                              403     ok       ok       403      403      ok     ok
GET    /api/topology                          403     ok       ok       403      403      ok     ok
GET    /api/pool/{pool}/fragmentation         403     404/404  ok/404   403/403  403/403  ok/ok  ok/ok
GET    /api/pool/{pool}/nodes                 403     404/404  ok/404   403/403  403/403  ok/ok  ok/ok
POST   /api/pool/{pool}/what-if               403     403/403  403/403  403/403  ok/404   ok/ok  ok/ok
GET    /api/pool/{pool}/topology              403     404/404  ok/404   403/403  403/403  ok/ok  ok/ok

GET    /api/configs/pool                      403     403      403      403      ok       ok     ok
PUT    /api/configs/pool                      403     403      403      403      403      403    ok
GET    /api/configs/pool/{pool}               403     403/403  403/403  403/403  ok/404   ok/ok  ok/ok
PUT    /api/configs/pool/{pool}               403     403/403  403/403  403/403  ok/403   403    ok/ok
PATCH  /api/configs/pool/{pool}               403     403/403  403/403  403/403  ok/403   403    ok/ok
DELETE /api/configs/pool/{pool}               403     403/403  403/403  403/403  ok/403   403    ok/ok

PUT    /api/configs/pool/{pool}/rename        403     403/403  403/403  403/403  ok/403   403    ok/ok
GET    /api/configs/pool/{pool}/platform      403     403/403  403/403  403/403  ok/404   ok/ok  ok/ok
GET    /api/configs/pool/{pool}/platform/{gpu}  403     403/403  403/403  403/403  ok/404   ok/ok  ok/ok
PUT    /api/configs/pool/{pool}/platform/{gpu}  403     403/403  403/403  403/403  ok/403   403    ok/ok
PUT    /api/configs/pool/{pool}/platform/{gpu}/rename  403  403/403  403/403  403/403  ok/403  403  ok/ok

GET    /api/preflight                         403     403      403      403      ok       ok     ok
GET    /api/cluster/{backend}/waiting         403     404/404  ok/404   403/403  403/403  ok/ok  ok/ok
GET    /api/cluster/{backend}/group/{namespace}/{gang}  403  403   403      403      403      403    ok
GET    /api/configs/backend                   403     403      403      403      ok       ok     ok
GET    /api/configs/backend/{name}            403     403      403      403      404      ok     ok
POST   /api/configs/backend/{name}            403     403      403      403      403      403    ok
PUT    /api/configs/backend/{name}            403     403      403      403      403      403    ok
DELETE /api/configs/backend/{name}            403     403      403      403      403      403    ok
DELETE /api/configs/backend/{name}/suspect_nodes/{node}  403  403  403      403      403      403    ok
GET    /api/configs/workflow                  403     403      403      403      403      ok     ok
PUT    /api/configs/workflow                  403     403      403      403      403      403    ok
PATCH  /api/configs/workflow                  403     403      403      403      403      403    ok

GET    /api/configs/pod_template              403     403      403      403      403      ok     ok
PUT    /api/configs/pod_template              403     403      403      403      403      403    ok
GET    /api/configs/pod_template/{name}       403     403      403      403      403      404    404
PUT    /api/configs/pod_template/{name}       403     403      403      403      403      403    ok
DELETE /api/configs/pod_template/{name}       403     403      403      403      403      403    404
GET    /api/configs/group_template            403     403      403      403      403      ok     ok
PUT    /api/configs/group_template            403     403      403      403      403      403    ok
GET    /api/configs/group_template/{name}     403     403      403      403      403      404    404
PUT    /api/configs/group_template/{name}     403     403      403      403      403      403    ok
DELETE /api/configs/group_template/{name}     403     403      403      403      403      403    404
GET    /api/configs/resource_validation       403     403      403      403      403      ok     ok
PUT    /api/configs/resource_validation       403     403      403      403      403      403    ok
GET    /api/configs/resource_validation/{name} 403    403      403      403      403      404    404
PUT    /api/configs/resource_validation/{name} 403    403      403      403      403      403    ok
DELETE /api/configs/resource_validation/{name} 403    403      403      403      403      403    404

GET    /api/configs/file                      403     403      403      403      403      ok     ok
PUT    /api/configs/file                      403     403      403      403      403      403    ok
GET    /api/configs/diff                      403     403      403      403      ok       ok     ok
GET    /api/configs/history                   403     403      403      403      ok       ok     ok
POST   /api/configs/history/rollback          403     403      403      403      ok       403    ok
DELETE /api/configs/history/{type}/revision/{no} 403     403      403      403      404      403    404
POST   /api/configs/history/{type}/revision/{no}/tags  403  403   403      403      ok       403    ok

POST   /api/doctor                            403     403      403      403      403      403    ok
GET    /api/doctor/{no}                       403     403      403      403      403      403    404

GET    /api/configs/service                   403     403      403      403      403      ok     ok

GET    /api/profile/settings                  ok      ok       ok       ok       ok       ok     ok
GET    /api/profile/news_key                  ok      ok       ok       ok       ok       ok     ok
POST   /api/profile/settings                  ok      ok       ok       ok       ok       ok     ok
GET    /api/version                           ok      ok       ok       ok       ok       ok     ok
GET    /api/router/version                    ok      ok       ok       ok       ok       ok     ok
GET    /api/auth/login                        ok      ok       ok       ok       ok       ok     ok
POST   /api/auth/jwt/access_token             ok      ok       ok       ok       ok       ok     ok
GET    /api/plugins/configs                   ok      ok       ok       ok       ok       ok     ok
GET    /api/auth/access_token                 ok      ok       ok       ok       ok       ok     ok
POST   /api/auth/access_token/{token}         ok      ok       ok       ok       ok       ok     ok
DELETE /api/auth/access_token/{token}         ok      ok       ok       ok       ok       ok     ok
GET    /api/schema                            ok      ok       ok       ok       ok       ok     ok
GET    /api/docs                              ok      ok       ok       ok       ok       ok     ok

GET    /ui/                                   403     ok       ok       403      403      ok     ok
GET    /ui/pools                              403     302      302      403      403      302    302
GET    /ui/pools/{pool}/submit                403     404/404  ok/404   403/403  403/403  ok/ok  ok/ok
POST   /ui/pools/{pool}/submit                403     404/404  ok/404   403/403  403/403  ok/ok  ok/ok
GET    /ui/pools/{pool}                       403     404/404  ok/404   403/403  403/403  ok/ok  ok/ok
GET    /ui/pools/{pool}/map                   403     404/404  ok/404   403/403  403/403  ok/ok  ok/ok
GET    /ui/pools/{pool}/map.svg               403     404/404  ok/404   403/403  403/403  ok/ok  ok/ok
GET    /ui/pools/{pool}/what-if               403     403/403  403/403  403/403  ok/404   ok/ok  ok/ok
GET    /ui/clusters/{backend}                 403     404/404  ok/404   403/403  403/403  ok/ok  ok/ok
GET    /ui/clusters/{backend}/{namespace}/{gang}  403     403  403      403      403      403    ok
GET    /ui/workflows                          403     ok       ok       ok       403      ok     ok
GET    /ui/workflows/{workflow_id}            403     404/404  ok/404   ok/404   403/403  ok/ok  ok/ok
GET    /ui/workflows/{workflow_id}/cancel     403     404/404  ok/404   403/403  403/403  ok/ok  ok/ok
POST   /ui/workflows/{workflow_id}/cancel     403     404/404  ok/404   403/403  403/403  ok/ok  ok/ok
GET    /ui/workflows/{workflow_id}/again      403     404/404  ok/404   403/403  403/403  ok/ok  ok/ok
POST   /ui/workflows/{workflow_id}/again      403     404/404  ok/404   403/403  403/403  ok/ok  ok/ok
"""


def rows():
    """(method, address, {caller: (answer in mine, answer in other)}) of each line."""
    head, *lines = [line for line in TABLE.splitlines() if line.strip()]
    callers = head.split()
    for line in lines:
        method, address, *cells = line.split()
        assert len(cells) == len(callers), line
        answers = {caller: (cell.split("/") * 2)[:2] for caller, cell in zip(callers, cells, strict=True)}
        yield method, address, answers
