package main

import (
	"os"
	"runtime"
	"strings"

	cadvisorapi "github.com/google/cadvisor/info/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	cadvisortest "k8s.io/kubernetes/pkg/kubelet/cadvisor/testing"
	"k8s.io/kubernetes/pkg/kubelet/cm"
)

// machine is the hardware that the node reports.
type machine struct {
	cores       int
	memoryBytes uint64
	bootID      string
	kernel      string
}

// reservation is the part of the capacity that is not allocatable.
type reservation struct {
	cpuMilli    int64
	memoryBytes int64
}

// thisMachine describes the machine on which the process runs, without its memory.
func thisMachine() machine {
	return machine{
		cores:  runtime.NumCPU(),
		bootID: firstLine("/proc/sys/kernel/random/boot_id"),
		kernel: firstLine("/proc/sys/kernel/osrelease"),
	}
}

// firstLine returns an empty text if the file cannot be read: both files only describe the node.
func firstLine(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return line
}

// cadvisor reports the given machine; all other methods are those of a fake.
type cadvisor struct {
	*cadvisortest.Fake
	machine machine
}

func newCadvisor(node string, m machine) *cadvisor {
	return &cadvisor{Fake: &cadvisortest.Fake{NodeName: node}, machine: m}
}

func (c *cadvisor) MachineInfo() (*cadvisorapi.MachineInfo, error) {
	info, err := c.Fake.MachineInfo()
	if err != nil {
		return nil, err
	}
	info.NumCores = c.machine.cores
	info.MemoryCapacity = c.machine.memoryBytes
	info.BootID = c.machine.bootID
	return info, nil
}

func (c *cadvisor) VersionInfo() (*cadvisorapi.VersionInfo, error) {
	info, err := c.Fake.VersionInfo()
	if err != nil {
		return nil, err
	}
	info.KernelVersion = c.machine.kernel
	info.ContainerOsVersion = "hollow node"
	return info, nil
}

// containerManager has the given reservation; all other methods are those of a stub.
type containerManager struct {
	cm.ContainerManager
	reserved reservation
}

func newContainerManager(r reservation) *containerManager {
	return &containerManager{ContainerManager: cm.NewStubContainerManager(), reserved: r}
}

func (c *containerManager) GetNodeAllocatableReservation() v1.ResourceList {
	return v1.ResourceList{
		v1.ResourceCPU:    *resource.NewMilliQuantity(c.reserved.cpuMilli, resource.DecimalSI),
		v1.ResourceMemory: *resource.NewQuantity(c.reserved.memoryBytes, resource.BinarySI),
	}
}
