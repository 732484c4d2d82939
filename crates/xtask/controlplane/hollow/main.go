// Command hollow is a Kubernetes node kept by real kubelet code over a fake container runtime.
// Unlike kubemark's binary, which always claims 1 CPU and 3840Mi, it reports the machine it is told.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"go.opentelemetry.io/otel/trace/noop"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	remote "k8s.io/cri-client/pkg"
	"k8s.io/cri-client/pkg/fake"
	"k8s.io/klog/v2"
	kubeletoptions "k8s.io/kubernetes/cmd/kubelet/app/options"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubemark"
)

// runtimeTimeout bounds one call to the fake runtime, which answers from memory.
const runtimeTimeout = 15 * time.Second

// heartbeatTimeout bounds one write of a status or a lease, as it does in a kubelet of default settings. A node that
// is to look at its status more often waits no shorter for the API server.
const heartbeatTimeout = 10 * time.Second

type options struct {
	name       string
	kubeconfig string
	rootDir    string
	maxPods    int
	sync       time.Duration
	report     time.Duration
	machine    machine
	reserved   reservation
}

func parse(arguments []string) (options, error) {
	o := options{machine: thisMachine()}
	flags := flag.NewFlagSet("hollow", flag.ContinueOnError)
	flags.StringVar(&o.name, "name", "", "name of the node; the credential must belong to system:node:NAME")
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig of the node")
	flags.StringVar(&o.rootDir, "root-dir", "", "existing folder for the kubelet's files")
	flags.IntVar(&o.maxPods, "max-pods", 110, "pods the node accepts")
	flags.DurationVar(&o.sync, "sync", 10*time.Second, "how often the node's status is compared with the Node")
	flags.DurationVar(&o.report, "report", 5*time.Minute, "how often a status that does not change is written")
	flags.IntVar(&o.machine.cores, "cpus", o.machine.cores, "CPUs the node reports")
	flags.Uint64Var(&o.machine.memoryBytes, "memory-bytes", 0, "memory the node reports, in bytes")
	flags.Int64Var(&o.reserved.cpuMilli, "reserved-cpu-milli", 0, "CPU held back from allocatable, in milli-cores")
	flags.Int64Var(&o.reserved.memoryBytes, "reserved-memory-bytes", 0, "memory held back from allocatable, in bytes")
	if err := flags.Parse(arguments); err != nil {
		return o, err
	}
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case o.name == "" || o.kubeconfig == "" || o.rootDir == "":
		return o, errors.New("--name, --kubeconfig and --root-dir are required")
	case o.sync <= 0 || o.report <= 0:
		return o, errors.New("--sync and --report must be positive")
	case o.machine.cores < 1 || o.machine.memoryBytes == 0:
		return o, errors.New("--cpus and --memory-bytes must be positive")
	case o.reserved.cpuMilli < 0 || o.reserved.memoryBytes < 0:
		return o, errors.New("a reservation is never negative")
	}
	return o, nil
}

func main() {
	o, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "hollow:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, o); err != nil {
		klog.ErrorS(err, "Hollow node ended")
		os.Exit(1)
	}
}

// run keeps the node until ctx ends. The kubelet itself never returns, so it is left to end with the process.
func run(ctx context.Context, o options) error {
	flags, config := kubemark.GetHollowKubeletConfig(&kubemark.HollowKubeletOptions{NodeName: o.name, MaxPods: o.maxPods})
	if err := moveFolders(flags, config, o.rootDir); err != nil {
		return fmt.Errorf("make the kubelet's folders: %w", err)
	}
	// Nothing reads the kubelet's own server, and without it no port is taken.
	config.EnableServer = false
	config.ReadOnlyPort = 0
	config.NodeStatusUpdateFrequency.Duration = o.sync
	config.NodeStatusReportFrequency.Duration = o.report

	client, heartbeats, err := clients(o.kubeconfig)
	if err != nil {
		return fmt.Errorf("read kubeconfig %s: %w", o.kubeconfig, err)
	}
	endpoint := "unix://" + filepath.Join(o.rootDir, "runtime.sock")
	runtime := fake.NewFakeRemoteRuntime()
	if err := runtime.Start(endpoint); err != nil {
		return fmt.Errorf("start the fake runtime: %w", err)
	}
	defer runtime.Stop()
	service, err := remote.NewRemoteRuntimeService(ctx, endpoint, runtimeTimeout, noop.NewTracerProvider(), false)
	if err != nil {
		return fmt.Errorf("connect to the fake runtime: %w", err)
	}
	kubelet := kubemark.NewHollowKubelet(flags, config, client, heartbeats,
		newCadvisor(o.name, o.machine), runtime.ImageService, service, newContainerManager(o.reserved))
	go kubelet.Run(ctx)
	<-ctx.Done()
	return nil
}

// moveFolders puts the kubelet's folders below ours. The fixture has made them in /tmp, whatever TMPDIR says, and would leave
// them there.
func moveFolders(flags *kubeletoptions.KubeletFlags, config *kubeletconfig.KubeletConfiguration, rootDir string) error {
	if err := os.RemoveAll(flags.RootDirectory); err != nil {
		return err
	}
	flags.RootDirectory = filepath.Join(rootDir, "kubelet")
	config.StaticPodPath = filepath.Join(rootDir, "static-pods")
	config.PodLogsDir = filepath.Join(rootDir, "pod-logs")
	for _, folder := range []string{flags.RootDirectory, config.StaticPodPath, config.PodLogsDir} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return err
		}
	}
	return nil
}

// clients gives the kubelet's two API clients: one for objects, and one for node status and leases, whose
// requests give up in time and wait for no rate limit.
func clients(kubeconfig string) (objects, heartbeats *kubernetes.Clientset, err error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, nil, err
	}
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.UserAgent = "hollow-kubelet"
	if objects, err = kubernetes.NewForConfig(config); err != nil {
		return nil, nil, err
	}
	config = rest.CopyConfig(config)
	config.Timeout = heartbeatTimeout
	config.QPS = -1
	heartbeats, err = kubernetes.NewForConfig(config)
	return objects, heartbeats, err
}
