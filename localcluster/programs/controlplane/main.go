// Command controlplane is etcd and the Kubernetes control plane in one binary.
//
// The local cluster needs four servers of known versions on machines that have neither containers
// nor a Kubernetes distribution, and Go modules are the one channel that brings them. One program
// is linked once, so their shared packages are compiled and stored once. The first argument names
// the server; what follows is passed to it untouched. "service-account-key FILE" writes the key
// that the API server signs service account tokens with: Python's standard library cannot make one.
package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

const usage = "usage: controlplane etcd|kube-apiserver|kube-controller-manager|kube-scheduler [flags]\n" +
	"       controlplane service-account-key FILE\n"

func main() {
	if len(os.Args) < 2 {
		fail(usage)
	}
	server := os.Args[1]
	os.Args = append([]string{server}, os.Args[2:]...) // each server reads its flags from os.Args
	switch server {
	case "etcd":
		etcdmain.Main(os.Args)
	case "kube-apiserver":
		run(apiserver.NewAPIServerCommand())
	case "kube-controller-manager":
		run(controllermanager.NewControllerManagerCommand())
	case "kube-scheduler":
		run(scheduler.NewSchedulerCommand())
	case "service-account-key":
		if len(os.Args) != 2 {
			fail(usage)
		}
		if err := writeKey(os.Args[1]); err != nil {
			fail(err.Error() + "\n")
		}
	default:
		fail(fmt.Sprintf("unknown server %q\n%s", server, usage))
	}
}

func run(command *cobra.Command) {
	os.Exit(cli.Run(command))
}

func fail(message string) {
	fmt.Fprint(os.Stderr, message)
	os.Exit(2)
}

// writeKey makes an ECDSA key and writes it, readable by its owner only.
func writeKey(path string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	block := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
	return os.WriteFile(path, block, 0o600)
}
