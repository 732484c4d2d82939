// Command podmerge applies strategic merge patches to Pods with Kubernetes' own code.
//
// It reads one JSON object per line from standard input, {"pod": {...}, "patch": {...}}, and writes one per line: {"pod": {...}}
// with the patched Pod before decoding, including patch directives that Kubernetes leaves in it, or {"error": "..."}. A panic
// is reported as an error, as in the API server.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// pair is a Pod and a strategic merge patch.
type pair struct {
	Pod   json.RawMessage `json:"pod"`
	Patch json.RawMessage `json:"patch"`
}

// result is the patched Pod, or an error.
type result struct {
	Pod   json.RawMessage `json:"pod,omitempty"`
	Error string          `json:"error,omitempty"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "podmerge:", err)
		os.Exit(1)
	}
}

func run() error {
	in := json.NewDecoder(bufio.NewReader(os.Stdin))
	out := bufio.NewWriter(os.Stdout)
	encoder := json.NewEncoder(out)
	for in.More() {
		var p pair
		if err := in.Decode(&p); err != nil {
			return err
		}
		if err := encoder.Encode(merge(p)); err != nil {
			return err
		}
	}
	return out.Flush()
}

// merge applies the patch of a pair.
func merge(p pair) (r result) {
	defer func() {
		if v := recover(); v != nil {
			r = result{Error: fmt.Sprintf("panic: %v", v)}
		}
	}()
	merged, err := strategicpatch.StrategicMergePatch(p.Pod, p.Patch, corev1.Pod{})
	if err != nil {
		return result{Error: err.Error()}
	}
	return result{Pod: merged}
}
