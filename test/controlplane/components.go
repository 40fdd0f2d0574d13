package controlplane

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/prebind/prebind/test/programs"
)

func (cp *ControlPlane) startEtcd(ctx context.Context) error {
	pair, err := cp.files.etcdCA.issue("probe")
	if err != nil {
		return err
	}
	return withFreePorts(ctx, 1, func(ports []int) error {
		url := "https://" + address(ports[0])
		ready, err := httpsProbe(url+"/readyz", cp.files.etcdCA, &pair)
		if err != nil {
			return err
		}
		cp.etcd = cp.process("etcd", programs.Etcd, []string{
			"--name=default",
			"--data-dir=" + filepath.Join(cp.dir, "etcd"),
			"--listen-client-urls=" + url,
			"--advertise-client-urls=" + url,
			"--cert-file=" + cp.files.etcdCert,
			"--key-file=" + cp.files.etcdKey,
			"--client-cert-auth",
			"--trusted-ca-file=" + cp.files.etcdCA.file(),
			"--listen-peer-urls=http://127.0.0.1:0", // no peer will ever call
			"--unsafe-no-fsync",
			"--log-level=warn",
		}, ready)
		cp.files.etcdURL = url
		return cp.etcd.Start(ctx)
	})
}

func (cp *ControlPlane) startAPIServer(ctx context.Context) error {
	return withFreePorts(ctx, 1, func(ports []int) error {
		cp.apiServerURL = "https://" + address(ports[0])
		ready, err := httpsProbe(cp.apiServerURL+"/readyz", cp.clusterCA, nil)
		if err != nil {
			return err
		}
		args := append(cp.apiServerArgs(ports[0]), cp.opts.APIServerArgs...)
		cp.apiServer = cp.process("kube-apiserver", programs.APIServer, args, ready)
		if err := cp.apiServer.Start(ctx); err != nil {
			return err
		}
		if cp.admin, err = cp.UserConfig("kubernetes-admin", "system:masters"); err != nil {
			return err
		}
		if cp.kubeconfig, err = cp.writeKubeconfig("admin", cp.admin); err != nil {
			return err
		}
		return cp.connect()
	})
}

func (cp *ControlPlane) apiServerArgs(port int) []string {
	f := cp.files
	args := []string{
		"--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(port),
		"--endpoint-reconciler-type=none", // loopback is no valid endpoint
		"--tls-cert-file=" + f.servingCert,
		"--tls-private-key-file=" + f.servingKey,
		"--etcd-servers=" + f.etcdURL,
		"--etcd-cafile=" + f.etcdCA.file(),
		"--etcd-certfile=" + f.toEtcdCert,
		"--etcd-keyfile=" + f.toEtcd,
		"--client-ca-file=" + cp.clusterCA.file(),
		"--requestheader-client-ca-file=" + f.requestHeaderCA.file(),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + f.tokenCert,
		"--service-account-signing-key-file=" + f.tokenKey,
		"--service-cluster-ip-range=10.0.0.0/24",
		"--authorization-mode=RBAC",
		// Nobody would remove the taint of a new node.
		"--disable-admission-plugins=TaintNodesByCondition",
		"--shutdown-delay-duration=0s",
	}
	if cp.opts.NoAudit {
		return args
	}
	return append(args,
		"--audit-policy-file="+f.auditPolicy,
		"--audit-log-path="+f.auditLog,
		"--audit-log-mode=blocking",
		"--audit-log-maxsize=100000", // MB: never rotated
	)
}

func (cp *ControlPlane) startControllerManager(ctx context.Context) error {
	kubeconfig, err := cp.writeUserKubeconfig("kube-controller-manager", "system:kube-controller-manager")
	if err != nil {
		return err
	}
	err = withFreePorts(ctx, 1, func(ports []int) error {
		ready, err := httpsProbe("https://"+address(ports[0])+"/healthz", cp.clusterCA, nil)
		if err != nil {
			return err
		}
		args := []string{
			"--kubeconfig=" + kubeconfig,
			"--bind-address=127.0.0.1",
			"--secure-port=" + strconv.Itoa(ports[0]),
			"--tls-cert-file=" + cp.files.servingCert,
			"--tls-private-key-file=" + cp.files.servingKey,
			"--leader-elect=false",
			"--use-service-account-credentials",
			"--service-account-private-key-file=" + cp.files.tokenKey,
			"--root-ca-file=" + cp.clusterCA.file(),
			"--controllers=*,-" + strings.Join(controllersOff(), ",-"),
		}
		args = append(args, cp.opts.ControllerManagerArgs...)
		cp.controllerManager = cp.process("kube-controller-manager", programs.ControllerManager, args, ready)
		return cp.controllerManager.Start(ctx)
	})
	if err != nil {
		return err
	}
	for _, namespace := range []string{metav1.NamespaceDefault, metav1.NamespaceSystem} {
		if err := cp.awaitDefaultServiceAccount(ctx, namespace); err != nil {
			return err
		}
	}
	return nil
}

// controllersOff lists the controllers that are not started.
func controllersOff() []string {
	return []string{
		// It would find every node dead: nobody renews their leases.
		"node-lifecycle-controller",
		// These have nothing to do with pods and volumes, and each would take 0.15
		// seconds to start at the default request rate.
		"certificatesigningrequest-approving-controller",
		"certificatesigningrequest-cleaner-controller",
		"certificatesigningrequest-signing-controller",
		"clusterrole-aggregation-controller",
		"cronjob-controller",
		"device-taint-eviction-controller",
		"endpoints-controller",
		"endpointslice-controller",
		"endpointslice-mirroring-controller",
		"horizontal-pod-autoscaler-controller",
		"kube-apiserver-serving-clustertrustbundle-publisher-controller",
		"legacy-serviceaccount-token-cleaner-controller",
		"podcertificaterequest-cleaner-controller",
		"replicationcontroller-controller",
		"resourceclaim-controller",
		"resourcequota-controller",
		"root-ca-certificate-publisher-controller",
		"storage-version-migrator-controller",
		"ttl-controller",
		"validatingadmissionpolicy-status-controller",
	}
}

// awaitDefaultServiceAccount waits until pods can be created in a namespace.
func (cp *ControlPlane) awaitDefaultServiceAccount(ctx context.Context, namespace string) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, cp.opts.ReadyTimeout, true, func(ctx context.Context) (bool, error) {
		_, last = cp.client.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the default service account of namespace %s: %w", namespace, errors.Join(err, last))
	}
	return nil
}
