"""Names of metrics begin with what the administrator says."""

from web.operation.metrics import renamed

PAGE = b"""\
# HELP osmo_state_up Whether osmo_ values can be read.
# TYPE osmo_state_up gauge
osmo_state_up 1.0
osmo_tasks{pool="osmo_a"} 2.0
# TYPE python_info gauge
python_info{implementation="osmo_"} 1.0
"""

RENAMED = b"""\
# HELP ours_state_up Whether osmo_ values can be read.
# TYPE ours_state_up gauge
ours_state_up 1.0
ours_tasks{pool="osmo_a"} 2.0
# TYPE python_info gauge
python_info{implementation="osmo_"} 1.0
"""


def test_names_of_ours_change_and_nothing_else():
    assert renamed(PAGE, prefix="ours_") == RENAMED
    assert renamed(PAGE, prefix="osmo_") == PAGE
