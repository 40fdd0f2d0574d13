package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/prebind/prebind/internal/registration"
)

// schedulerConfig is the command `prebind scheduler-config`.
type schedulerConfig struct {
	flags          *pflag.FlagSet
	stdin          io.Reader
	stdout, stderr io.Writer

	mode, url, service, kubeconfig        string
	caFile, certFile, keyFile, serverName string
	kubeconfigPath, distribution, patch   string
	schedulerNames                        []string
	httpTimeout                           time.Duration
	embedCA                               bool

	secret  string // namespace/name of the client certificate's Secret, if known
	patched []byte // the file to patch, once it is read
}

func newSchedulerConfigCommand() *cobra.Command {
	c := &schedulerConfig{}
	command := &cobra.Command{
		Use:   "scheduler-config {--url URL | --from-service NS/NAME | --patch FILE} [flags]",
		Short: "Print the kube-scheduler configuration that registers prebind",
		Long:  schedulerConfigHelp,
		Args:  cobra.NoArgs,

		DisableFlagsInUseLine: true, // Use has them
		RunE: func(command *cobra.Command, _ []string) error {
			c.flags, c.stdin = command.Flags(), command.InOrStdin()
			c.stdout, c.stderr = command.OutOrStdout(), command.ErrOrStderr()
			return c.run(command.Context())
		},
	}
	c.define(command.Flags())
	return command
}

func (c *schedulerConfig) define(flags *pflag.FlagSet) {
	flags.SortFlags = false
	flags.StringVar(&c.mode, "mode", "bind", "bind, full or stock, see above; with --patch also none, which takes prebind out")
	flags.StringVar(&c.url, "url", "", "where kube-scheduler reaches prebind, such as https://10.96.0.77:8443 or http://127.0.0.1:8888")
	flags.StringVar(&c.service, "from-service", "", "NAMESPACE/NAME of prebind's Service: take the URL, the server name and the CA from the cluster")
	flags.StringVar(&c.kubeconfig, "kubeconfig", "", "kubeconfig to read --from-service with (default: that of kubectl)")
	flags.StringVar(&c.caFile, "ca-file", "", "CA of prebind's certificate, as a path that kube-scheduler sees")
	flags.BoolVar(&c.embedCA, "embed-ca", false, "write the CA itself into the output; --ca-file is then a file of this machine")
	flags.StringVar(&c.certFile, "cert-file", "", "client certificate, as a path that kube-scheduler sees")
	flags.StringVar(&c.keyFile, "key-file", "", "its key, as a path that kube-scheduler sees")
	flags.StringVar(&c.serverName, "server-name", "", "name in prebind's certificate, needed when the URL has an address")
	flags.DurationVar(&c.httpTimeout, "http-timeout", registration.DefaultHTTPTimeout, "ends a bind call; keep it above prebind's volumes.bindTimeout")
	flags.StringArrayVar(&c.schedulerNames, "scheduler-name", nil, "profile to write, may be repeated (default default-scheduler)")
	flags.StringVar(&c.kubeconfigPath, "kubeconfig-path", "", "kube-scheduler's own kubeconfig, as a path that it sees (default: that of --for, kubeadm's without)")
	flags.StringVar(&c.distribution, "for", "", "kubeadm, k3s, rke2 or kind: its paths, and on standard error what to do on its nodes")
	flags.StringVar(&c.patch, "patch", "", "change this KubeSchedulerConfiguration instead of writing a new one; - is standard input")
}

func (c *schedulerConfig) run(ctx context.Context) error {
	if err := c.checkFlags(); err != nil {
		return err
	}
	options := registration.Options{
		Mode: registration.Mode(c.mode), URL: c.url, ServerName: c.serverName,
		CAFile: c.caFile, CertFile: c.certFile, KeyFile: c.keyFile,
		SchedulerNames: c.schedulerNames,
	}
	if c.flags.Changed("http-timeout") {
		options.HTTPTimeout = c.httpTimeout
	}
	if c.service != "" {
		if err := c.fromService(ctx, &options); err != nil {
			return err
		}
	}
	if err := c.embed(&options); err != nil {
		return err
	}
	output, err := c.render(options)
	if err != nil {
		return err
	}
	found, err := c.warn(output)
	if err != nil {
		return err
	}
	if err := c.replaced(found); err != nil {
		return err
	}
	if err := c.hint(found); err != nil {
		return err
	}
	if _, err := c.stdout.Write(output); err != nil {
		return &runtimeError{fmt.Errorf("printing the configuration: %w", err)}
	}
	return nil
}

// checkFlags finds flags that do not go together.
func (c *schedulerConfig) checkFlags() error {
	known := registration.Distributions()
	switch {
	case c.url != "" && c.service != "":
		return errors.New("--url and --from-service exclude each other")
	case c.url == "" && c.service == "" && c.patch == "":
		return errors.New("where is prebind? Give --url or --from-service (or --patch FILE, with an entry of prebind in it)")
	case c.mode == string(registration.ModeNone) && c.patch == "":
		return errors.New("--mode none takes prebind out of a file, and needs --patch FILE")
	case c.mode == string(registration.ModeNone) && (c.url != "" || c.service != ""):
		return errors.New("--mode none takes prebind out, and goes without --url and --from-service")
	case c.kubeconfig != "" && c.service == "":
		return errors.New("--kubeconfig goes with --from-service only; the scheduler's own kubeconfig is --kubeconfig-path")
	case c.embedCA && c.caFile == "" && c.service == "":
		return errors.New("--embed-ca needs --ca-file, or --from-service")
	case len(c.schedulerNames) > 0 && c.patch != "":
		return errors.New("--scheduler-name goes without --patch, which changes every profile of the file: extenders serve all of them")
	case c.flags.Changed("http-timeout") && c.httpTimeout <= 0:
		return fmt.Errorf("--http-timeout must be above zero, it is %s; kube-scheduler would take 0 for 5s", c.httpTimeout)
	case c.distribution != "" && !slices.Contains(known, registration.Distribution(c.distribution)):
		return fmt.Errorf("unknown --for %q, known ones: kubeadm, k3s, rke2, kind", c.distribution)
	}
	return nil
}

// embed reads the CA that is to stand in the output.
func (c *schedulerConfig) embed(options *registration.Options) error {
	if !c.embedCA || c.caFile == "" {
		return nil
	}
	data, err := os.ReadFile(c.caFile)
	if err != nil {
		return fmt.Errorf("reading --ca-file (with --embed-ca it is a file of this machine): %w", err)
	}
	options.CAFile, options.CAData = "", data
	return nil
}

// render generates or patches.
func (c *schedulerConfig) render(options registration.Options) ([]byte, error) {
	options.KubeconfigPath = c.kubeconfigPath
	if c.patch == "" {
		if !c.flags.Changed("kubeconfig-path") {
			options.KubeconfigPath = registration.Distribution(c.distribution).Kubeconfig()
		}
		return registration.Generate(options)
	}
	name, data, err := c.read()
	if err != nil {
		return nil, err
	}
	output, err := registration.Patch(data, options)
	if err != nil {
		return nil, &configError{name, err}
	}
	return output, nil
}

// read returns the file to patch, and its name for people. Standard input is read
// once.
func (c *schedulerConfig) read() (name string, data []byte, err error) {
	name = c.patch
	switch {
	case c.patched != nil:
		data = c.patched
	case name == "-":
		data, err = io.ReadAll(c.stdin)
	default:
		data, err = os.ReadFile(name)
	}
	if err != nil {
		return "", nil, fmt.Errorf("reading the file to patch: %w", err)
	}
	c.patched = data
	if name == "-" {
		name = "standard input"
	}
	return name, data, nil
}

// warn says on standard error what is still wrong with the output: what the file
// brought along, or what the user wanted so.
func (c *schedulerConfig) warn(output []byte) (*registration.Found, error) {
	problems, found, err := registration.Check(output, registration.CheckOptions{})
	if err != nil {
		return nil, &runtimeError{fmt.Errorf("checking the configuration: %w", err)}
	}
	for _, p := range problems {
		if p.Check == registration.NotRegistered && c.mode == string(registration.ModeNone) {
			continue
		}
		c.say("%s: %s: %s\n  Why: %s\n  Mend: %s\n", p.Severity, p.Path, p.What, p.Why, p.Mend)
	}
	return found, nil
}

// replaced tells of an entry that now calls another address: it was taken for an
// earlier one of prebind.
func (c *schedulerConfig) replaced(now *registration.Found) error {
	before, err := c.there()
	if err != nil {
		return err
	}
	if before.URL != "" && now.URL != "" && before.URL != now.URL {
		c.say("note: %s called %s and was taken for an earlier entry of prebind; it now calls %s.\n", before.Path, before.URL, now.URL)
	}
	return nil
}

func (c *schedulerConfig) hint(found *registration.Found) error {
	switch {
	case c.distribution != "":
		text, err := registration.Hints(registration.Distribution(c.distribution), found, c.secret)
		if err != nil {
			return &runtimeError{err}
		}
		c.say("%s", text)
	case c.patch == "":
		c.say("--for kubeadm, k3s, rke2 or kind tells what to do with this. The paths are kubeadm's.\n")
	default:
		c.say("The file itself is not changed. --for kubeadm, k3s, rke2 or kind tells what to do with what was printed.\n")
	}
	return nil
}

// say writes to standard error; nobody could be told of a failure.
func (c *schedulerConfig) say(format string, args ...any) {
	_, _ = fmt.Fprintf(c.stderr, format, args...)
}
