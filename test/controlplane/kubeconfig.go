package controlplane

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// tokenLife is longer than any test or demo.
const tokenLife = 24 * time.Hour

// AdminConfig returns a client configuration that may do everything, without a
// limit on its request rate.
func (cp *ControlPlane) AdminConfig() *rest.Config { return rest.CopyConfig(cp.admin) }

// Kubeconfig returns the administrator's kubeconfig file.
func (cp *ControlPlane) Kubeconfig() string { return cp.kubeconfig }

// UserConfig returns a client configuration for a user in groups, as RBAC
// knows them. The request rate is not limited.
func (cp *ControlPlane) UserConfig(user string, groups ...string) (*rest.Config, error) {
	if cp.existing {
		config := cp.AdminConfig()
		config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
		return config, nil
	}
	pair, err := cp.clusterCA.issue(user, groups...)
	if err != nil {
		return nil, err
	}
	return &rest.Config{
		Host:            cp.apiServerURL,
		QPS:             -1,
		TLSClientConfig: rest.TLSClientConfig{CAData: cp.clusterCA.encoded(), CertData: pair.cert, KeyData: pair.key},
	}, nil
}

// ServiceAccountConfig returns a client configuration with a bearer token of a
// service account, which must exist. The request rate is not limited.
func (cp *ControlPlane) ServiceAccountConfig(ctx context.Context, namespace, name string) (*rest.Config, error) {
	request := &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(tokenLife.Seconds()))},
	}
	answer, err := cp.client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, request, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("requesting a token for service account %s/%s: %w", namespace, name, err)
	}
	config := rest.AnonymousClientConfig(cp.admin)
	config.BearerToken, config.QPS = answer.Status.Token, -1
	return config, nil
}

// WriteKubeconfigForServiceAccount writes a kubeconfig with a bearer token of
// a service account, which must exist, and returns its file.
func (cp *ControlPlane) WriteKubeconfigForServiceAccount(ctx context.Context, namespace, name string) (string, error) {
	config, err := cp.ServiceAccountConfig(ctx, namespace, name)
	if err != nil {
		return "", err
	}
	return cp.writeKubeconfig(namespace+"-"+name, config)
}

// writeUserKubeconfig writes a kubeconfig for a user of the control plane.
func (cp *ControlPlane) writeUserKubeconfig(file, user string, groups ...string) (string, error) {
	config, err := cp.UserConfig(user, groups...)
	if err != nil {
		return "", err
	}
	return cp.writeKubeconfig(file, config)
}

// writeKubeconfig writes config as a kubeconfig to a file of the work folder.
func (cp *ControlPlane) writeKubeconfig(file string, config *rest.Config) (string, error) {
	const name = "prebind"
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters[name] = &clientcmdapi.Cluster{
		Server:                   config.Host,
		CertificateAuthority:     config.CAFile,
		CertificateAuthorityData: config.CAData,
		InsecureSkipTLSVerify:    config.Insecure,
		TLSServerName:            config.ServerName,
	}
	kubeconfig.AuthInfos[name] = &clientcmdapi.AuthInfo{
		ClientCertificateData: config.CertData,
		ClientKeyData:         config.KeyData,
		Token:                 config.BearerToken,
	}
	kubeconfig.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	kubeconfig.CurrentContext = name
	path := filepath.Join(cp.dir, file+".kubeconfig")
	if err := clientcmd.WriteToFile(*kubeconfig, path); err != nil {
		return "", fmt.Errorf("writing kubeconfig %s: %w", path, err)
	}
	return path, nil
}
