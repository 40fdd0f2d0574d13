package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/prebind/prebind/internal/registration"
)

// fromService fills in what the cluster knows: where prebind is, which name its
// certificate has, and which CA signed it.
func (c *schedulerConfig) fromService(ctx context.Context, options *registration.Options) error {
	named, err := parseNamespacedName("--from-service", c.service)
	if err != nil {
		return err
	}
	cfg, err := restConfig(c.kubeconfig, "")
	if err != nil {
		return &runtimeError{err}
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return &runtimeError{fmt.Errorf("making the client of the API server: %w", err)}
	}
	service, err := client.CoreV1().Services(named.Namespace).Get(ctx, named.Name, metav1.GetOptions{})
	if err != nil {
		return &runtimeError{fmt.Errorf("reading the Service %s: %w", c.service, err)}
	}
	if options.URL, err = serviceURL(service); err != nil {
		return &runtimeError{err}
	}
	if !strings.HasPrefix(options.URL, "https://") {
		return nil
	}
	if options.ServerName == "" {
		options.ServerName = named.Name + "." + named.Namespace + ".svc"
	}
	return c.fromSecret(ctx, client, named.Namespace, named.Name+"-client", options)
}

// serviceURL returns the URL of a Service's one stable address.
func serviceURL(service *corev1.Service) (string, error) {
	name := service.Namespace + "/" + service.Name
	switch address := service.Spec.ClusterIP; {
	case service.Spec.Type == corev1.ServiceTypeExternalName:
		return "", fmt.Errorf("the Service %s is of type ExternalName and has no address of its own; give --url", name)
	case address == corev1.ClusterIPNone:
		return "", fmt.Errorf("the Service %s is headless: kube-scheduler needs one address that stays, and cannot resolve the Service's name. Use the Service that has a ClusterIP, or give --url", name)
	case address == "":
		return "", fmt.Errorf("the Service %s has no ClusterIP yet; try again, or give --url", name)
	}
	var others []string
	for _, scheme := range []string{"https", "http"} {
		for _, port := range service.Spec.Ports {
			if port.Name == scheme {
				return scheme + "://" + net.JoinHostPort(service.Spec.ClusterIP, strconv.Itoa(int(port.Port))), nil
			}
		}
	}
	for _, port := range service.Spec.Ports {
		others = append(others, fmt.Sprintf("%s (%d)", port.Name, port.Port))
	}
	return "", fmt.Errorf("the Service %s has no port named https or http, only %s; is it prebind's? Else give --url", name, strings.Join(others, ", "))
}

// fromSecret takes the CA from the client's Secret, and gives the files that the
// user did not name, nor the file to patch, their default paths. A Secret that
// may not be read is no failure: its files are needed on the nodes anyway.
func (c *schedulerConfig) fromSecret(ctx context.Context, client kubernetes.Interface, namespace, name string, options *registration.Options) error {
	c.secret = namespace + "/" + name
	there, err := c.there()
	if err != nil {
		return err
	}
	dir := registration.Distribution(c.distribution).Dir()
	if options.CertFile == "" && options.KeyFile == "" && there.CertFile == "" && len(there.CertData) == 0 {
		options.CertFile, options.KeyFile = dir+"/"+corev1.TLSCertKey, dir+"/"+corev1.TLSPrivateKeyKey
	}
	if options.CAFile != "" || there.CAFile != "" && !c.embedCA {
		return nil
	}
	secret, err := client.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
	if err == nil && len(secret.Data[caKey]) == 0 {
		err = errors.New("it has no " + caKey)
	}
	switch {
	case err == nil:
		options.CAData = secret.Data[caKey]
	case c.embedCA:
		return &runtimeError{fmt.Errorf("reading the CA from the Secret %s: %w", c.secret, err)}
	case len(there.CAData) > 0:
		c.say("note: the Secret %s was not read (%v); the CA in the file stays.\n", c.secret, err)
	default:
		options.CAFile = dir + "/" + caKey
		c.say("note: the Secret %s was not read (%v); the CA is expected in %s.\n", c.secret, err, options.CAFile)
	}
	return nil
}

// caKey is the key of the CA in the chart's Secrets.
const caKey = "ca.crt"

// there is what the file to patch says of prebind; nothing without --patch.
func (c *schedulerConfig) there() (*registration.Found, error) {
	if c.patch == "" {
		return &registration.Found{}, nil
	}
	name, data, err := c.read()
	if err != nil {
		return nil, err
	}
	_, found, err := registration.Check(data, registration.CheckOptions{})
	if err != nil {
		return nil, &configError{name, err}
	}
	return found, nil
}
