package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/prebind/prebind/config"
	"github.com/prebind/prebind/internal/doctor"
)

// faultsFoundError ends the program with exitFailure and no further word: the
// report has said it all.
type faultsFoundError struct{ count int }

func (e *faultsFoundError) Error() string { return fmt.Sprintf("%d faults found", e.count) }

// doctorFlags are the flags of `prebind doctor`, as given.
type doctorFlags struct {
	schedulerConfig, config                         string
	endpoint, caFile, certFile, keyFile, serverName string
	kubeconfig, serviceAccount, output              string
	metrics                                         []string
	beforeUninstall                                 bool
	timeout                                         time.Duration
}

func newDoctorCommand() *cobra.Command {
	var flags doctorFlags
	command := &cobra.Command{
		Use:   "doctor [flags]",
		Short: "Find out what is wrong with an installation, and how to mend it",
		Long:  doctorHelp,
		Args:  cobra.NoArgs,

		DisableFlagsInUseLine: true, // Use has them
		RunE: func(command *cobra.Command, _ []string) error {
			return runDoctor(command.Context(), &flags, command.OutOrStdout(), command.ErrOrStderr())
		},
	}
	f := command.Flags()
	f.StringVar(&flags.schedulerConfig, "scheduler-config", "", "kube-scheduler's configuration file")
	f.StringVar(&flags.config, "config", "", "prebind's configuration file")
	f.StringVar(&flags.endpoint, "endpoint", "", "URL that the scheduler calls, as in https://10.96.0.77:8443; best from the scheduler's machine")
	f.StringVar(&flags.caFile, "ca-file", "", "CA of the endpoint's certificate; this and the next: empty takes what --scheduler-config names, if it names this endpoint")
	f.StringVar(&flags.certFile, "cert-file", "", "client certificate, the scheduler's")
	f.StringVar(&flags.keyFile, "key-file", "", "key of --cert-file")
	f.StringVar(&flags.serverName, "server-name", "", "name to expect in the endpoint's certificate; empty: the URL's host")
	f.StringVar(&flags.kubeconfig, "kubeconfig", "", "kubeconfig file; empty: as `prebind serve` would find it")
	f.StringVar(&flags.serviceAccount, "service-account", "", "NAMESPACE/NAME whose rights to check by impersonation; empty: that of prebind's pods, else your own")
	f.StringSliceVar(&flags.metrics, "metrics", nil, "URL of a replica's ops listener, may be repeated; empty: replicas are found by the label app.kubernetes.io/name=prebind")
	f.BoolVar(&flags.beforeUninstall, "before-uninstall", false, "also find out whether prebind may be taken away now")
	f.StringVarP(&flags.output, "output", "o", "text", "format: text or json")
	f.DurationVar(&flags.timeout, "timeout", 30*time.Second, "how long all checks may take together")
	return command
}

// runDoctor examines and prints. Any error but faultsFoundError and runtimeError is
// bad use.
func runDoctor(ctx context.Context, flags *doctorFlags, stdout, stderr io.Writer) error {
	if flags.output != "text" && flags.output != "json" {
		return fmt.Errorf("unknown --output %q, known ones: text, json", flags.output)
	}
	if flags.timeout <= 0 {
		return fmt.Errorf("--timeout %s: must be more than 0", flags.timeout)
	}
	klog.SetLogger(logr.Discard()) // whoever reads a diagnosis has no use for client-go's own lines
	options, err := flags.options()
	if err != nil {
		return err
	}
	options.Progress = progress(stderr)
	ctx, cancel := context.WithTimeout(ctx, flags.timeout)
	defer cancel()
	report, err := doctor.Run(ctx, options)
	if err != nil {
		return err
	}
	if flags.output == "json" {
		err = report.WriteJSON(stdout)
	} else {
		err = report.WriteText(stdout, isTerminal(stdout) && os.Getenv("NO_COLOR") == "")
	}
	if err != nil {
		return &runtimeError{fmt.Errorf("printing the report: %w", err)}
	}
	if report.Faults > 0 {
		return &faultsFoundError{report.Faults}
	}
	return nil
}

// options reads everything that the flags name.
func (flags *doctorFlags) options() (doctor.Options, error) {
	options := doctor.Options{
		SchedulerConfig: flags.schedulerConfig, Config: flags.config, KnownPlugins: knownPlugins(),
		Metrics: flags.metrics, BeforeUninstall: flags.beforeUninstall,
	}
	for _, text := range flags.metrics {
		if _, err := parseURL("--metrics", text); err != nil {
			return options, err
		}
	}
	var err error
	if options.Endpoint, err = flags.readEndpoint(); err != nil {
		return options, err
	}
	if flags.serviceAccount != "" {
		if options.ServiceAccount, err = parseNamespacedName("--service-account", flags.serviceAccount); err != nil {
			return options, err
		}
	}
	err = flags.findCluster(&options)
	return options, err
}

func (flags *doctorFlags) readEndpoint() (endpoint doctor.Endpoint, err error) {
	if flags.endpoint == "" {
		if flags.caFile+flags.certFile+flags.keyFile+flags.serverName != "" {
			return endpoint, errors.New("--ca-file, --cert-file, --key-file and --server-name need an --endpoint")
		}
		return endpoint, nil
	}
	if (flags.certFile == "") != (flags.keyFile == "") {
		return endpoint, errors.New("--cert-file and --key-file go together")
	}
	endpoint.ServerName = flags.serverName
	if endpoint.URL, err = parseURL("--endpoint", flags.endpoint); err != nil {
		return endpoint, err
	}
	for _, file := range []struct {
		flag, path string
		to         *[]byte
	}{{"--ca-file", flags.caFile, &endpoint.CA}, {"--cert-file", flags.certFile, &endpoint.Cert}, {"--key-file", flags.keyFile, &endpoint.Key}} {
		if file.path == "" {
			continue
		}
		if *file.to, err = os.ReadFile(file.path); err != nil {
			return endpoint, fmt.Errorf("reading %s: %w", file.flag, err)
		}
	}
	return endpoint, nil
}

func parseURL(flag, text string) (*url.URL, error) {
	parsed, err := url.Parse(text)
	if err != nil || (parsed.Scheme != "http" && parsed.Scheme != "https") || parsed.Hostname() == "" {
		return nil, fmt.Errorf("%s %q: must be a URL such as https://10.96.0.77:8443", flag, text)
	}
	return parsed, nil
}

// parseNamespacedName parses the value of a flag that names an object.
func parseNamespacedName(flag, text string) (types.NamespacedName, error) {
	namespace, name, found := strings.Cut(text, "/")
	if !found || namespace == "" || name == "" || strings.Contains(name, "/") {
		return types.NamespacedName{}, fmt.Errorf("%s %q: must be NAMESPACE/NAME, such as kube-system/prebind", flag, text)
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, nil
}

// findCluster looks for an API server where `prebind serve` would. To find none
// is bad use only if there is nothing else to look at.
func (flags *doctorFlags) findCluster(options *doctor.Options) error {
	file := ""
	if flags.config != "" && flags.kubeconfig == "" {
		// A bad file is a finding of doctor's.
		if cfg, err := config.LoadFile(flags.config, config.Options{}); err == nil {
			file = cfg.ClientConnection.Kubeconfig
		}
	}
	cluster, err := restConfig(flags.kubeconfig, file)
	if clientcmd.IsEmptyConfig(errors.Unwrap(err)) {
		err = errors.New("no kubeconfig was found, and this is no pod of a cluster")
	}
	alone := flags.schedulerConfig == "" && flags.config == "" && flags.endpoint == "" && len(flags.metrics) == 0
	switch {
	case err == nil:
		options.Cluster = cluster
		options.ClusterChosen = alone || flags.kubeconfig != "" || flags.serviceAccount != ""
	case flags.kubeconfig != "" || flags.serviceAccount != "":
		return err
	case alone:
		return fmt.Errorf("nothing to look at: give --scheduler-config, --config, --endpoint, --metrics or a cluster by --kubeconfig: %w", err)
	default:
		options.NoCluster = err.Error()
	}
	return nil
}

// progress names the running check on a terminal, in one line that goes away.
func progress(stderr io.Writer) func(string) {
	if !isTerminal(stderr) {
		return nil
	}
	return func(check string) {
		_, _ = fmt.Fprint(stderr, "\r\x1b[K")
		if check != "" {
			_, _ = fmt.Fprintf(stderr, "checking %s ...", check)
		}
	}
}

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

const doctorHelp = `Look at an installation of prebind: the scheduler's configuration file, prebind's
own, its rights, the endpoint that the scheduler calls, versions, storage classes,
and whether the scheduler really calls prebind. Each finding says what is wrong,
why it hurts and how to mend it. Nothing is changed.

What is not there is skipped: without a cluster, files are still checked. The
cluster is found as ` + "`prebind serve`" + ` finds it. All checks are described in
docs/doctor.md.

  # A file, before the scheduler gets it; no cluster needed:
  prebind doctor --scheduler-config config.yaml --config prebind.yaml

  # The installation, as an administrator:
  prebind doctor --service-account kube-system/prebind --scheduler-config config.yaml

  # The endpoint as the scheduler sees it, on its machine:
  prebind doctor --scheduler-config config.yaml --endpoint https://10.96.0.77:8443

  # May prebind go?
  prebind doctor --before-uninstall --scheduler-config config.yaml

Exit codes: 0 no fault found (there may be advice), 1 a fault found, 2 bad use.`
