// The controllers of cert-manager that issue from authorities kept in Secrets: the project's own code, from its Go
// module, started the way its command does. The command itself is a module of its own that no registry serves.
//
//	certmanager KUBECONFIG
//
// Left out is what asks others (ACME, Vault, CyberArk) and what ingresses and gateways are for.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/cert-manager/cert-manager/pkg/controller"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/ca"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/selfsigned"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	_ "github.com/cert-manager/cert-manager/pkg/controller/clusterissuers"
	_ "github.com/cert-manager/cert-manager/pkg/controller/issuers"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/ca"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned"
)

const workers = 2

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: certmanager KUBECONFIG")
		os.Exit(2)
	}
	root, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(root, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "certmanager:", err)
		os.Exit(1)
	}
}

func run(root context.Context, kubeconfig string) error {
	factory, err := controller.NewContextFactory(root, controller.ContextOptions{
		Kubeconfig:         kubeconfig,
		KubernetesAPIQPS:   300,
		KubernetesAPIBurst: 600,
		IssuerOptions:      controller.IssuerOptions{ClusterResourceNamespace: "cert-manager"},
		CertificateOptions: controller.CertificateOptions{
			CertificateRequestMinimumBackoffDuration: time.Second,
			CertificateRequestMaximumBackoffDuration: time.Minute,
		},
	})
	if err != nil {
		return err
	}
	shared, err := factory.Build()
	if err != nil {
		return err
	}
	var group sync.WaitGroup
	failed := make(chan error, len(controller.Known()))
	for name, construct := range controller.Known() {
		made, err := construct(factory)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		group.Go(func() {
			if err := made.Run(workers, root); err != nil {
				failed <- fmt.Errorf("%s: %w", name, err)
			}
		})
	}
	shared.SharedInformerFactory.Start(root.Done())
	shared.KubeSharedInformerFactory.Start(root.Done())
	shared.HTTP01ResourceMetadataInformersFactory.Start(root.Done())
	fmt.Println("controllers started")
	select {
	case err := <-failed:
		return err
	case <-root.Done():
	}
	group.Wait()
	return nil
}
