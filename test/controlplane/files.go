package controlplane

import (
	"fmt"
	"os"
	"path/filepath"
)

// files are the certificates, keys and policies that the programs share.
type files struct {
	etcdURL             string
	etcdCA              *authority
	requestHeaderCA     *authority
	etcdCert, etcdKey   string // etcd's own
	toEtcdCert, toEtcd  string // the API server's, for etcd
	servingCert         string // of the API server, the controller manager and the scheduler
	servingKey          string
	tokenKey, tokenCert string // sign and check service account tokens
	auditPolicy         string
	auditLog            string
}

// auditPolicy logs every request once, when it has been answered. Health checks
// are left out.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  nonResourceURLs: ["/livez*", "/readyz*", "/healthz*"]
- level: Metadata
`

// writeFiles makes everything that the programs need before they start. Three
// authorities, because whoever holds a certificate of one must not pass for a
// user of another.
func (cp *ControlPlane) writeFiles() error {
	f := &cp.files
	var err error
	if cp.clusterCA, err = newAuthority(cp.dir, "cluster-ca"); err != nil {
		return err
	}
	if f.etcdCA, err = newAuthority(cp.dir, "etcd-ca"); err != nil {
		return err
	}
	if f.requestHeaderCA, err = newAuthority(cp.dir, "requestheader-ca"); err != nil {
		return err
	}
	if f.etcdCert, f.etcdKey, err = f.etcdCA.issueFiles("etcd", "etcd"); err != nil {
		return fmt.Errorf("writing certificates: %w", err)
	}
	if f.toEtcdCert, f.toEtcd, err = f.etcdCA.issueFiles("apiserver-to-etcd", "kube-apiserver"); err != nil {
		return fmt.Errorf("writing certificates: %w", err)
	}
	if f.servingCert, f.servingKey, err = cp.clusterCA.issueFiles("serving", "localhost"); err != nil {
		return fmt.Errorf("writing certificates: %w", err)
	}
	if f.tokenKey, f.tokenCert, err = writeTokenKeys(cp.dir); err != nil {
		return err
	}
	f.auditLog = filepath.Join(cp.dir, "audit.log")
	f.auditPolicy = filepath.Join(cp.dir, "audit-policy.yaml")
	if err := os.WriteFile(f.auditPolicy, []byte(auditPolicy), 0o600); err != nil {
		return fmt.Errorf("writing the audit policy: %w", err)
	}
	return nil
}
