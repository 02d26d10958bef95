// Only files of these modules are used, so nothing that they require is here.
module osmo-topology/localcluster/definitions

go 1.26.0

require (
	github.com/prometheus-operator/prometheus-operator v0.85.0
	sigs.k8s.io/gateway-api v1.6.3
)
