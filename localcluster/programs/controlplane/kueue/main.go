// Command kueue is Kueue without what only its own jobs need: its core and topology controllers, its
// scheduler and the webhooks of its objects.
//
// Kueue's own main links every job integration and wants a certificate at a path that only root can
// write. The product makes Workloads itself, so this main sets up the rest of Kueue and nothing else.
// "--config FILE" is Kueue's own configuration. "--certificates DIR" holds tls.crt and tls.key for the
// webhooks, which listen on the configuration's port; without it nothing is defaulted or refused.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/flowcontrol"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	configapi "sigs.k8s.io/kueue/apis/config/v1beta2"
	kueuev1beta1 "sigs.k8s.io/kueue/apis/kueue/v1beta1"
	kueuev1beta2 "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	queuecache "sigs.k8s.io/kueue/pkg/cache/queue"
	schedulercache "sigs.k8s.io/kueue/pkg/cache/scheduler"
	"sigs.k8s.io/kueue/pkg/config"
	"sigs.k8s.io/kueue/pkg/constants"
	"sigs.k8s.io/kueue/pkg/controller/core"
	"sigs.k8s.io/kueue/pkg/controller/core/indexer"
	"sigs.k8s.io/kueue/pkg/controller/tas"
	tasindexer "sigs.k8s.io/kueue/pkg/controller/tas/indexer"
	"sigs.k8s.io/kueue/pkg/scheduler"
	"sigs.k8s.io/kueue/pkg/scheduler/preemption/expectations"
	"sigs.k8s.io/kueue/pkg/util/waitforpodsready"
	"sigs.k8s.io/kueue/pkg/webhooks"
)

func main() {
	file := flag.String("config", "", "Kueue's configuration")
	certificates := flag.String("certificates", "", "the folder of the webhooks' tls.crt and tls.key")
	flag.Parse()
	ctrl.SetLogger(zap.New())
	if err := run(ctrl.SetupSignalHandler(), *file, *certificates); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, file, certificates string) error {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, kueuev1beta1.AddToScheme, kueuev1beta2.AddToScheme, configapi.AddToScheme,
	} {
		utilruntime.Must(add(scheme))
	}
	options, settings, err := config.Load(scheme, file)
	if err != nil {
		return err
	}
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(settings.FeatureGates); err != nil {
		return err
	}
	options.Metrics = server.Options{BindAddress: settings.Metrics.BindAddress}
	if certificates != "" {
		options.WebhookServer = webhook.NewServer(webhook.Options{
			Host: settings.Webhook.Host, Port: *settings.Webhook.Port, CertDir: certificates,
		})
	}
	client, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	client.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(
		*settings.ClientConnection.QPS, int(*settings.ClientConnection.Burst))
	manager, err := ctrl.NewManager(client, options)
	if err != nil {
		return err
	}
	if err := setUp(ctx, manager, &settings); err != nil {
		return err
	}
	ready := healthz.Ping
	if certificates != "" {
		if failed, err := webhooks.Setup(manager, nil); err != nil {
			return fmt.Errorf("webhook of %s: %w", failed, err)
		}
		ready = manager.GetWebhookServer().StartedChecker()
	}
	if err := manager.AddReadyzCheck("readyz", ready); err != nil {
		return err
	}
	return manager.Start(ctx)
}

// setUp adds Kueue's caches, controllers and scheduler to the manager, in the order in which they need
// each other.
func setUp(ctx context.Context, manager ctrl.Manager, settings *configapi.Configuration) error {
	timestamp, block := configapi.EvictionTimestamp, false
	if ready := settings.WaitForPodsReady; waitforpodsready.Enabled(ready) {
		block = ready.BlockAdmission != nil && *ready.BlockAdmission
		if ready.RequeuingStrategy != nil && ready.RequeuingStrategy.Timestamp != nil {
			timestamp = *ready.RequeuingStrategy.Timestamp
		}
	}
	victims := expectations.New()
	requeuer := queuecache.NewRequeuer()
	cache := schedulercache.New(manager.GetClient(), schedulercache.WithPodsReadyTracking(block))
	queues := queuecache.NewManager(manager.GetClient(), cache, requeuer,
		queuecache.WithPodsReadyRequeuingTimestamp(timestamp),
		queuecache.WithPreemptionExpectations(victims))
	if err := errors.Join(
		manager.Add(requeuer),
		indexer.Setup(ctx, manager.GetFieldIndexer()),
		tasindexer.SetupIndexes(ctx, manager.GetFieldIndexer()),
	); err != nil {
		return err
	}
	if failed, err := core.SetupControllers(manager, queues, cache, settings, nil, victims, nil); err != nil {
		return fmt.Errorf("controller of %s: %w", failed, err)
	}
	if failed, err := tas.SetupControllers(manager, queues, cache, settings, nil); err != nil {
		return fmt.Errorf("controller of %s: %w", failed, err)
	}
	go queues.CleanUpOnContext(ctx)
	go cache.CleanUpOnContext(ctx)
	return manager.Add(scheduler.New(queues, cache, manager.GetClient(),
		manager.GetEventRecorderFor(constants.AdmissionName),
		scheduler.WithPodsReadyRequeuingTimestamp(timestamp),
		scheduler.WithPreemptionExpectations(victims)))
}
