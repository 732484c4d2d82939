// Command hollow runs a Kubernetes node with real kubelet code and a fake container runtime.
// It reports the machine in its flags; kubemark's binary always reports 1 CPU and 3840Mi.
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

// runtimeTimeout limits one call to the fake runtime, which answers from memory.
const runtimeTimeout = 15 * time.Second

// heartbeatTimeout limits one write of a status or a lease: a kubelet's default. It does not depend on --sync.
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
	flags.IntVar(&o.maxPods, "max-pods", 110, "maximum number of pods")
	flags.DurationVar(&o.sync, "sync", 10*time.Second, "interval of comparing the status with the stored Node")
	flags.DurationVar(&o.report, "report", 5*time.Minute, "interval of writing an unchanged status")
	flags.IntVar(&o.machine.cores, "cpus", o.machine.cores, "number of reported CPUs")
	flags.Uint64Var(&o.machine.memoryBytes, "memory-bytes", 0, "reported memory, in bytes")
	flags.Int64Var(&o.reserved.cpuMilli, "reserved-cpu-milli", 0, "reserved CPU, which is not allocatable, in milli-cores")
	flags.Int64Var(&o.reserved.memoryBytes, "reserved-memory-bytes", 0, "reserved memory, which is not allocatable, in bytes")
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
		return o, errors.New("--reserved-cpu-milli and --reserved-memory-bytes must not be negative")
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

// run runs the node until ctx ends. The kubelet itself never returns; it ends with the process.
func run(ctx context.Context, o options) error {
	flags, config := kubemark.GetHollowKubeletConfig(&kubemark.HollowKubeletOptions{NodeName: o.name, MaxPods: o.maxPods})
	if err := moveFolders(flags, config, o.rootDir); err != nil {
		return fmt.Errorf("make the kubelet's folders: %w", err)
	}
	// The kubelet's server is not used, and would need a port.
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

// moveFolders moves the kubelet's folders into rootDir. The fixture has created them in /tmp, regardless of TMPDIR, and would
// not remove them.
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

// clients returns the kubelet's two API clients: one for objects, and one for node status and leases, with a timeout and
// without a rate limit.
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
