// Command prebind is a kube-scheduler extender that binds volumes and then the
// pod.
//
//	prebind serve --config FILE [--kubeconfig FILE]
//	prebind scheduler-config {--url URL | --from-service NS/NAME | --patch FILE} [flags]
//	prebind doctor [--scheduler-config FILE] [--endpoint URL] [flags]
//	prebind explain pod NAMESPACE/NAME [--node NODE | --all-nodes] [flags]
//	prebind status [--address HOST:PORT | --namespace NAMESPACE --service NAME] [flags]
//	prebind version [-o json|yaml]
//
// Called kubectl-prebind it is kubectl's plugin of that name, `kubectl prebind`.
//
// Exit codes: 0 for an orderly stop (SIGTERM, SIGINT), 1 for a failure at run
// time, 2 for bad use or a bad configuration.
package main
