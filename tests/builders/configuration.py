"""A configuration file of two pools on one KAI backend."""

FILE = """\
backends:
  kai:
    kubeconfig: /etc/kai
pools:
  train:
    backend: kai
    nvlink: true
    topology_keys:
      - {key: zone, label: topology.kubernetes.io/zone}
      - {key: rack, label: example.com/rack}
    platforms:
      h100: {node_selector: {example.com/gpu: h100}}
  spare:
    backend: kai
"""
