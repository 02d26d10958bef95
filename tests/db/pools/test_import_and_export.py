"""Configuration in a file: export, import, dry run, and what is refused with every field named."""

from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from pools import services
from pools.models import Backend, ConfigRevision, Pool
from tests.builders.configuration import FILE
from tests.fakes.usage import at_work

pytestmark = pytest.mark.django_db

ADMIN = services.ConfigChange(username="setup")


@pytest.fixture
def load(tmp_path):
    """Import a text and return (what was printed, what was told beside it)."""

    def run(text, **options):
        path = tmp_path / "config.yaml"
        path.write_text(text)
        out, err = StringIO(), StringIO()
        call_command("import_config", str(path), stdout=out, stderr=err, **options)
        return out.getvalue(), err.getvalue()

    return run


def dump(**options):
    out = StringIO()
    call_command("export_config", stdout=out, **options)
    return out.getvalue()


def faults_of(load, text, **options):
    """The lines of a refused import."""
    before = ConfigRevision.objects.count()
    with pytest.raises(CommandError) as refused:
        load(text, **options)
    assert ConfigRevision.objects.count() == before
    return str(refused.value).splitlines()[1:]


def test_an_import_writes_backends_and_the_pools_that_need_them(load):
    out, err = load(FILE, description="first")
    assert "3 objects changed." in err
    assert "+backend: kai" in out
    pool = Pool.objects.get(name="train")
    assert (pool.nvlink, pool.topology_keys.count(), pool.platforms.count()) == (True, 2, 1)
    assert set(ConfigRevision.objects.values_list("username", "description")) == {("import_config", "first")}


def test_an_import_repeated_changes_nothing(load):
    load(FILE)
    before = list(ConfigRevision.objects.values_list("pk", flat=True))
    out, err = load(FILE)
    assert (out, "0 objects changed." in err) == ("", True)
    assert list(ConfigRevision.objects.values_list("pk", flat=True)) == before


def test_an_export_makes_the_same_configuration_elsewhere(load):
    load(FILE)
    services.patch_workflow_config(changes={"max_num_tasks": 7}, change=ADMIN)
    exported = dump()
    assert load(exported)[0] == ""
    ConfigRevision.objects.all().delete()
    Pool.objects.all().delete()
    Backend.objects.all().delete()
    load(exported)
    assert dump() == exported
    assert list(dump(types=["POOL"]).splitlines()[0:1]) == ["pools:"]
    assert "backends:" not in dump(types=["POOL"])


def test_a_dry_run_shows_the_diff_and_changes_nothing(load):
    load(FILE)
    out, err = load(FILE.replace("nvlink: true", "nvlink: false"), dry_run=True)
    assert "-nvlink: true\n+nvlink: false" in out
    assert "1 object would change." in err
    assert Pool.objects.get(name="train").nvlink is True
    assert ConfigRevision.objects.count() == 3


def test_osmos_own_replies_are_read(load):
    """``config show BACKEND`` prints a list with names, ``config show POOL`` read-only fields too."""
    load(
        '{"backends": [{"name": "kai", "kubeconfig": "/etc/kai", "online": true, "k8s_uid": "x"}],'
        ' "pools": {"train": {"name": "train", "backend": "kai", "status": "ONLINE",'
        ' "common_group_templates": [], "parsed_pod_template": {}}}}'
    )
    assert Pool.objects.get().backend.name == "kai"


REFUSED = """\
group_templates:
  domain: {kind: ComputeDomain}
resource_validations:
  cpu: [{operator: LE}]
pools:
  train:
    backend: kai
    common_group_templates: [domain]
    topology_key: []
    platforms:
      h100:
        resource_validations: [cpu]
backends:
  kai:
    kubeconfig: relative
"""


def test_every_field_that_cannot_be_carried_is_named_with_its_line(load):
    lines = faults_of(load, REFUSED)
    places = [line.split(": ")[:2] for line in lines]
    assert places == [
        ["line 2", "group_templates.domain"],
        ["line 4", "resource_validations.cpu"],
        ["line 8", "pools.train.common_group_templates"],
        ["line 9", "pools.train.topology_key"],
        ["line 12", "pools.train.platforms.h100.resource_validations"],
        ["line 15", "backends.kai.kubeconfig"],
    ]
    assert "domain" in lines[2]
    assert 'did you mean "topology_keys"' in lines[3]


NO_FILES = {
    "no YAML": "pools: [",
    "nothing": "",
    "a list": "- pools",
    "an unknown section": "pool: {}",
    "a bomb": "a: &a [x, x]\n" + "\n".join(f"b{i}: &b{i} [*a, *a]" for i in range(3)),
    "an object twice": "backends: [{name: kai}, {name: kai}]",
    "a pool that is none": "pools: {train: 7}",
    "pools in a list": "pools: [{name: train}]",
    "a tag": "pools: !!python/object:os.system {}",
}


@pytest.mark.parametrize("text", NO_FILES.values(), ids=NO_FILES)
def test_an_import_is_refused_for(load, text):
    assert faults_of(load, text)


def test_one_fault_keeps_everything_out(load):
    lines = faults_of(load, FILE + "  broken:\n    backend: nowhere\n")
    assert len(lines) == 1
    assert "pools.broken.backend" in lines[0]
    assert not Pool.objects.exists()
    assert not Backend.objects.exists()


def test_a_scheduler_changes_together_with_the_pools_it_could_not_hold(load):
    load(FILE)
    plain = FILE.replace(
        "kubeconfig: /etc/kai", "kubeconfig: /etc/kai\n    scheduler_settings: {scheduler_type: default}"
    )
    assert any("scheduler_type" in line for line in faults_of(load, plain))
    start, end = plain.index("    topology_keys"), plain.index("    platforms")
    load(plain[:start] + plain[end:])
    assert Backend.objects.get().scheduler_type == "default"


def test_an_object_that_a_file_leaves_out_stays_unless_pruned(load):
    load(FILE)
    less = FILE.replace("  spare:\n    backend: kai\n", "")
    load(less)
    assert Pool.objects.filter(name="spare").exists()
    with at_work() as usage:
        usage.living = 1
        assert any("pools.spare" in line for line in faults_of(load, less, prune=True))
        load(less, prune=True, force=True)
    assert not Pool.objects.filter(name="spare").exists()
    load("workflow: {max_num_tasks: 3}", prune=True)
    assert Pool.objects.filter(name="train").exists()


TEMPLATED = """\
pod_templates:
  quiet: {spec: {terminationGracePeriodSeconds: 5}}
backends:
  kai: {kubeconfig: /etc/kai}
pools:
  train: {backend: kai, common_pod_template: [quiet]}
"""


def test_a_template_and_the_selection_of_its_pool_change_together_or_not_at_all(load):
    both = """\
pod_templates:
  part: {spec: {nodeSelector: {part: a}}}
backends:
  kai: {kubeconfig: /etc/kai}
pools:
  train: {backend: kai, node_selector: {part: a}, common_pod_template: [part]}
"""
    load(both)
    assert any("part=a" in line for line in faults_of(load, both.replace("part: a", "part: b", 1)))
    assert "2 objects changed" in load(both.replace("part: a", "part: b"))[1]
    assert Pool.objects.get().applied_template["pod"]["spec"]["nodeSelector"] == {"part": "b"}


def test_pod_templates_come_and_go_with_the_pools_that_use_them(load):
    load(TEMPLATED)
    assert load(dump())[0] == ""
    less = TEMPLATED.replace("  quiet: {spec: {terminationGracePeriodSeconds: 5}}\n", "  {}\n")
    assert any("quiet" in line for line in faults_of(load, less, prune=True))
    load(less.replace("common_pod_template: [quiet]", "nvlink: false"), prune=True)
    assert "quiet" not in dump()
