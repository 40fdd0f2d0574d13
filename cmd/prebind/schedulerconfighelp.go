package main

const schedulerConfigHelp = `Print a KubeSchedulerConfiguration that registers prebind with kube-scheduler: on
standard output the YAML and nothing else, on standard error what to mind. Nothing
is changed in the cluster, and no file is written.

Modes:
  bind   the scheduler chooses nodes as ever, prebind binds volumes and pods. The
         plugin VolumeBinding is disabled at reserve and preBind, in every profile.
  full   prebind also filters and scores nodes by their volumes, through an entry
         of its own. VolumeBinding is disabled at every point but preFilter.
  stock  the scheduler binds volumes by itself, prebind only binds the pods.
  none   only with --patch: prebind is taken out, VolumeBinding put back. Do this,
         and restart the scheduler, before prebind is uninstalled.

--patch FILE prints FILE with the registration changed and everything else kept:
other profiles, plugins, extenders, keys. An entry of prebind that is there is
updated in place; without --url it keeps its URL and certificates. Comments stay,
unless the file has YAML anchors; indentation may change. An unknown key or an old
apiVersion is refused with its line, as kube-scheduler would refuse it.

All paths are those that kube-scheduler sees: in a static pod, paths inside its
container. --from-service reads the Service and, if it may, the Secret NAME-client
of the Helm chart beside it; CA, certificate and key have default paths then, and
the CA is written into the output when it could be read.

Examples:
  # prebind on the same node, without TLS
  prebind scheduler-config --url http://127.0.0.1:8888 > scheduler-config.yaml

  # prebind installed by the Helm chart, a cluster made by kubeadm
  prebind scheduler-config --from-service kube-system/prebind --for kubeadm > scheduler-config.yaml

  # certificates of your own, two profiles
  prebind scheduler-config --url https://10.96.0.77:8443 --server-name prebind.kube-system.svc \
    --ca-file /etc/kubernetes/prebind/ca.crt --cert-file /etc/kubernetes/prebind/tls.crt \
    --key-file /etc/kubernetes/prebind/tls.key \
    --scheduler-name default-scheduler --scheduler-name batch > scheduler-config.yaml

  # into the configuration that you have, and out of it again
  prebind scheduler-config --url http://127.0.0.1:8888 --patch old.yaml > new.yaml
  prebind scheduler-config --mode none --patch new.yaml > restored.yaml

Exit codes: 0 printed, 1 the cluster could not be read, 2 bad use, or a file that
kube-scheduler would refuse.`
